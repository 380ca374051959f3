"""A GGUF file as a list of keys and a list of tensors, each of whose numbers may be made wrong.

Nothing is checked and nothing is computed that the caller has stated, so that any broken file can
be written. It shares no code with magnetd's reader. Only the Python standard library.
"""

import pathlib
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
           U64: "Q", I64: "q", F64: "d"}
ALIGNMENT = 32


def text(value, count=None):
    """A string of the file; `count` is what it says its length is."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data) if count is None else count) + data


def value_of(kind, value):
    return text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)


def array_of(kind, values, count=None):
    head = struct.pack("<IQ", kind, len(values) if count is None else count)
    return head + b"".join(value_of(kind, value) for value in values)


class Key:
    """A name (with its length), a type and the bytes of the value."""

    def __init__(self, name, kind, data):
        self.name, self.kind, self.data = name, kind, data

    def pack(self):
        name = self.name if isinstance(self.name, bytes) else text(self.name)
        return name + struct.pack("<I", self.kind & 0xFFFFFFFF) + self.data


class Tensor:
    """`offset` None: behind the tensor before it. `dim_count` None: as many as there are dims."""

    def __init__(self, name, dims, kind, data):
        self.name, self.dims, self.kind, self.data = name, dims, kind, data
        self.offset, self.dim_count = None, None

    def pack(self, at):
        name = self.name if isinstance(self.name, bytes) else text(self.name)
        count = len(self.dims) if self.dim_count is None else self.dim_count
        dims = b"".join(struct.pack("<Q", dim & 0xFFFFFFFFFFFFFFFF) for dim in self.dims)
        offset = at if self.offset is None else self.offset
        return (name + struct.pack("<I", count) + dims +
                struct.pack("<IQ", self.kind & 0xFFFFFFFF, offset & 0xFFFFFFFFFFFFFFFF))


class File:
    def __init__(self, path):
        self.bytes, self.at = pathlib.Path(path).read_bytes(), 8
        self.magic, self.version = b"GGUF", 3
        # The file ends there ("head": with its directory), then grows to this size with a hole.
        self.cut_at, self.sparse_bytes = None, 0
        self.tensor_count, self.key_count = None, None
        tensors, keys = self.take("QQ")
        self.keys = [self.read_key() for _ in range(keys)]
        places = [self.read_place() for _ in range(tensors)]
        self.at += -self.at % ALIGNMENT
        ends = [place[3] for place in places[1:]] + [len(self.bytes) - self.at]
        self.tensors = [Tensor(name, dims, kind, self.bytes[self.at + at:self.at + end])
                        for (name, dims, kind, at), end in zip(places, ends)]
        del self.bytes

    def take(self, format):
        found = struct.unpack_from("<" + format, self.bytes, self.at)
        self.at += struct.calcsize("<" + format)
        return found

    def skip(self, kind):
        if kind == STRING:
            (count,) = self.take("Q")
            self.at += count
        elif kind == ARRAY:
            element, count = self.take("IQ")
            for _ in range(count):
                self.skip(element)
        else:
            self.at += struct.calcsize(FORMATS[kind])

    def name(self):
        (count,) = self.take("Q")
        self.at += count
        return self.bytes[self.at - count:self.at].decode()

    def read_key(self):
        name, (kind,) = self.name(), self.take("I")
        start = self.at
        self.skip(kind)
        return Key(name, kind, self.bytes[start:self.at])

    def read_place(self):
        name, (count,) = self.name(), self.take("I")
        dims = list(self.take(f"{count}Q"))
        kind, offset = self.take("IQ")
        return name, dims, kind, offset

    # ---- changes ----

    def key(self, name):
        return next(key for key in self.keys if key.name == name)

    def tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def set(self, name, kind, value):
        """The key, whatever it was or whether it was."""
        self.drop(name)
        self.keys.append(Key(name, kind, value_of(kind, value)))

    def set_array(self, name, kind, values, count=None):
        self.drop(name)
        self.keys.append(Key(name, ARRAY, array_of(kind, values, count)))

    def drop(self, name):
        self.keys = [key for key in self.keys if key.name != name]

    # ---- bytes ----

    def pack(self):
        counts = (len(self.tensors) if self.tensor_count is None else self.tensor_count,
                  len(self.keys) if self.key_count is None else self.key_count)
        head = self.magic + struct.pack("<IQQ", self.version, *counts)
        head += b"".join(key.pack() for key in self.keys)
        at, data = 0, []
        for tensor in self.tensors:
            head += tensor.pack(at)
            data.append(tensor.data + bytes(-len(tensor.data) % ALIGNMENT))
            at += len(data[-1])
        whole = head + bytes(-len(head) % ALIGNMENT) + b"".join(data)
        return whole[:len(head) if self.cut_at == "head" else self.cut_at]
