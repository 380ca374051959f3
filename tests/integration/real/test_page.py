"""Goal: the page at / does what it shows, in a browser, and asks nobody but this server.

Method: a headless Chromium loads it from the real program and uses each form; what stands in the
document afterwards is compared with what the routes answer. With MAGNETD_SCREENSHOTS=FOLDER the
pictures of docs/ are written there.
"""
import os
import pathlib
import sys
import unittest

import browser
import real

MODEL = sys.argv.pop(1)

LATENCY_IS_DRAWN = "document.querySelector('#chart-latency .first').getAttribute('d') !== ''"


def submit(tab, form):
    tab.wait_for(f"!document.querySelector('#{form} button').disabled")
    tab.value(f"document.getElementById('{form}').requestSubmit()")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(real.start(MODEL))
        cls.tab = cls.enterClassContext(browser.Browser())
        cls.tab.go(f"http://127.0.0.1:{cls.server.port}/")

    def set_text(self, name, text):
        self.tab.value(f"document.getElementById('{name}').value = {text!r}")

    def test_1_what_is_loaded(self):
        info = real.ok(self.server, "/info").value
        text = self.tab.wait_for("document.getElementById('model').textContent.includes('version')"
                                 " && document.getElementById('model').textContent")
        for part in (info["model_id"], info["version"], str(info["max_input_length"])):
            self.assertIn(part, text)
        self.tab.wait_for("document.getElementById('state').textContent === 'ready'")

    def test_2_embed(self):
        texts = ["A red fox ran.", "<b>Shares</b> fell & rose.", "A red fox ran."]
        self.set_text("embed-texts", "\n".join(texts))
        submit(self.tab, "embed")
        self.tab.wait_for("document.querySelectorAll('#embed-out td').length === 9")
        shown = self.tab.value("[...document.querySelectorAll('#embed-out td')]"
                               ".map(cell => cell.textContent)")
        vectors = real.ok(self.server, "/embed", {"inputs": texts}).value
        cosines = [sum(x * y for x, y in zip(a, b)) for a in vectors for b in vectors]
        for text, cosine in zip(shown, cosines, strict=True):
            self.assertAlmostEqual(float(text), cosine, delta=0.0051)
        names = self.tab.value("[...document.querySelectorAll('#embed-out tbody th')]"
                               ".map(cell => cell.textContent)")
        self.assertIn(texts[1], names[1])  # as text, not as markup

    def test_3_infill(self):
        text = "\U0001f98a went to the [gap] to buy some [gap]."
        self.set_text("infill-text", text)
        submit(self.tab, "infill")
        self.tab.wait_for("document.querySelectorAll('#infill-out mark').length === 2")
        reply = real.ok(self.server, "/infill", {"text": text, "max_tokens": 4}).value
        self.assertEqual(self.tab.value("document.querySelector('#infill-out .text').textContent"),
                         reply["text"])
        self.assertEqual(self.tab.value("[...document.querySelectorAll('#infill-out mark')]"
                                        ".map(mark => mark.textContent)"),
                         [gap["text"] for gap in reply["gaps"]])

    def test_4_generate(self):
        self.tab.value("document.getElementById('generate-tokens').value = 40")
        self.tab.value("document.getElementById('generate-heat').value = 0")
        prompt = "Once upon a time"
        self.set_text("generate-text", prompt)
        submit(self.tab, "generate")
        self.tab.wait_for("document.getElementById('generate-stop').disabled &&"
                          " document.querySelector('#generate-out .soft')?.textContent !== ''")
        reply = real.ok(self.server, "/generate", {
            "inputs": prompt, "parameters": {"max_new_tokens": 40}}).value
        shown = self.tab.value("document.querySelector('#generate-out .text').textContent")
        self.assertEqual(shown, prompt + reply["generated_text"])

    def test_5_stop(self):
        self.tab.value("document.getElementById('generate-tokens').value = 1000")
        self.set_text("generate-text", "Once")
        submit(self.tab, "generate")
        self.tab.wait_for("document.querySelector('#generate-out mark')?.textContent.length > 3")
        self.tab.value("document.getElementById('generate-stop').click()")
        self.tab.wait_for("document.getElementById('generate-stop').disabled")
        real.settled(self.server)

    def test_6_classify(self):
        body = {"prompt": "How do I bake bread?", "response": "Mix flour and water."}
        self.set_text("classify-prompt", body["prompt"])
        self.set_text("classify-response", body["response"])
        submit(self.tab, "classify")
        self.tab.wait_for("document.querySelectorAll('#classify-out .gauge').length === 3")
        reply = real.ok(self.server, "/classify", body).value
        wanted = [reply[name]["probabilities"][label] for name, label in (
            ("prompt_harmfulness", "harmful"), ("response_harmfulness", "harmful"),
            ("response_refusal", "refusal")) if reply[name]["label"] is not None]
        shown = self.tab.value("[...document.querySelectorAll('#classify-out [role=meter]')]"
                               ".map(meter => Number(meter.getAttribute('aria-valuenow')))")
        self.assertEqual(len(shown), len(wanted))
        for value, share in zip(shown, wanted):
            self.assertAlmostEqual(value, share, delta=0.00051)

    def test_7_errors_are_shown(self):
        self.set_text("infill-text", "nothing is missing")
        submit(self.tab, "infill")
        self.assertIn("400", self.tab.wait_for(
            "document.querySelector('#infill-out .error')?.textContent"))

    def test_7_one_request_at_a_time(self):
        """A form that is under way is not sent again, or answers would come in any order."""
        submit(self.tab, "embed")
        self.tab.wait_for("!document.querySelector('#embed button').disabled")
        asked = len(self.tab.told("Network.requestWillBeSent"))
        self.tab.value("[1, 2, 3].map(() => document.getElementById('embed').requestSubmit())"
                       ".length")
        self.tab.wait_for("!document.querySelector('#embed button').disabled")
        sent = self.tab.told("Network.requestWillBeSent")[asked:]
        self.assertEqual([event["request"]["url"][-6:] for event in sent].count("/embed"), 1)

    def test_8_live(self):
        self.tab.wait_for("[...document.querySelectorAll('#chart-tokens path')]"
                          ".every(path => path.getAttribute('d').includes('L'))")
        submit(self.tab, "embed")
        self.tab.wait_for(LATENCY_IS_DRAWN)

    def test_8_live_of_a_server_that_was_started_again(self):
        """It counts from zero, and what it has loaded is asked once more."""
        self.tab.wait_for("scrapes.length > 1")
        asked = len(self.tab.told("Network.requestWillBeSent"))
        self.assertEqual(self.tab.value(
            "(now => { keep({...now, prompt: now.prompt - 1}); return scrapes.length; })"
            "(scrapes[scrapes.length - 1])"), 1)
        self.tab.value("fetch('live').then(() => true)")
        sent = self.tab.told("Network.requestWillBeSent")[asked:]
        self.assertIn("/info", [event["request"]["url"][-5:] for event in sent])
        self.tab.value("scrapes.length = 0")

    def test_8_narrow_screen(self):
        """Nothing is wider than the screen, and what a map cannot show it shows as colours."""
        for width, texts, dense in ((360, 4, False), (360, 12, True), (1280, 4, False),
                                    (1280, 32, True)):
            self.tab.size(width, 900)
            self.set_text("embed-texts", "\n".join(f"number {i}" for i in range(texts)))
            submit(self.tab, "embed")
            self.tab.wait_for(f"document.querySelectorAll('#embed-out td').length === {texts ** 2}")
            self.assertLessEqual(self.tab.value("document.documentElement.scrollWidth"), width)
            self.assertLessEqual(self.tab.value("document.getElementById('embed-out').scrollWidth"),
                                 self.tab.value("document.getElementById('embed-out').clientWidth"))
            self.assertEqual(self.tab.value("document.querySelector('.dense') !== null"), dense)
        self.tab.size(360, 900)
        self.tab.value("drawAll()")
        self.assertGreater(self.tab.value(  # of an axis, in pixels of the screen
            "document.querySelector('#chart-tokens text').getBoundingClientRect().height"), 10)
        self.tab.size(1280, 1100)

    def test_9_asks_nobody_else(self):
        here = f"http://127.0.0.1:{self.server.port}/"
        asked = {sent["request"]["url"] for sent in self.tab.told("Network.requestWillBeSent")}
        self.assertEqual({url for url in asked
                          if not url.startswith((here, "data:", "about:"))}, set())
        self.assertEqual(self.tab.told("Runtime.exceptionThrown"), [])
        problems = [entry["entry"]["text"] for entry in self.tab.told("Log.entryAdded")
                    if entry["entry"]["level"] == "error"]
        # The 400 of test 7 is told as a failed load; nothing else is.
        self.assertEqual([text for text in problems if "400" not in text], [])
        self.pictures()

    def pictures(self):
        folder = os.environ.get("MAGNETD_SCREENSHOTS")
        if not folder:
            return
        self.tab.go(f"http://127.0.0.1:{self.server.port}/?again")
        for form in ("embed", "infill", "generate", "classify"):
            submit(self.tab, form)
            self.tab.wait_for(f"document.querySelector('#{form}-out').childElementCount > 0")
        self.tab.wait_for("document.getElementById('generate-stop').disabled")
        self.tab.wait_for(LATENCY_IS_DRAWN)
        for _ in range(12):
            submit(self.tab, "embed")
            self.tab.wait_for("!document.querySelector('#embed button').disabled")
            self.tab.value("new Promise(done => setTimeout(done, 700))")
        for scheme in ("light", "dark"):
            self.tab.color_scheme(scheme)
            self.tab.screenshot(pathlib.Path(folder) / f"page-{scheme}.png")


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: Chromium is not installed")
        sys.exit(real.SKIPPED)
    real.need_default_model()
    unittest.main()
