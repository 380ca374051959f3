/* The standard process_* metrics, read from /proc at the scrape. */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

struct buf;

/* What cannot be read is left out. */
void process_write(struct buf *out);

#endif
