/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "board.h"

struct board {
	struct board_page *page;
	char path[80];
	int fd;
};

/* A socket with a name: it is found from every network namespace. */
static void name_of(const struct board *board, unsigned int flow, struct sockaddr_un *name)
{
	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	snprintf(name->sun_path, sizeof(name->sun_path), "%s.%u", board->path, flow);
}

static int open_bell(struct board *board, unsigned int flow)
{
	struct sockaddr_un name;

	name_of(board, flow, &name);
	unlink(name.sun_path);
	board->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return board->fd < 0 ? -1 : bind(board->fd, (struct sockaddr *)&name, sizeof(name));
}

struct board *board_open(const char *path, int flow)
{
	struct board *board = calloc(1, sizeof(*board));
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (!board || fd < 0 || strlen(path) >= sizeof(board->path))
		goto fail;
	strcpy(board->path, path);
	board->fd = -1;
	board->page = mmap(NULL, sizeof(*board->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (board->page == MAP_FAILED)
		goto fail;
	errno = EPROTO;
	if (board->page->magic != BOARD_MAGIC || !board->page->steps ||
	    board->page->flows > BOARD_FLOWS || flow >= (int)board->page->flows)
		goto fail;
	if (flow >= 0 && open_bell(board, (unsigned int)flow))
		goto fail;
	close(fd);
	return board;
fail:
	fprintf(stderr, "roceflow: --board %s: %m\n", path);
	if (fd >= 0)
		close(fd);
	free(board);
	return NULL;
}

void board_close(struct board *board)
{
	if (!board)
		return;
	munmap(board->page, sizeof(*board->page));
	if (board->fd >= 0)
		close(board->fd);
	free(board);
}

int board_fd(const struct board *board)
{
	return board->fd;
}

void board_hear(struct board *board)
{
	char rings[64];

	while (recv(board->fd, rings, sizeof(rings), 0) >= 0)
		;
}

static uint64_t read_once(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

uint64_t board_opens_ns(const struct board *board, unsigned int flow, uint64_t number)
{
	const struct board_page *page = board->page;
	uint64_t round = number / page->steps, start;

	if (round >= BOARD_ROUNDS)
		return UINT64_MAX;
	if (number % page->steps) {
		unsigned int before = (flow + page->flows - 1) % page->flows;

		return read_once(&page->done[before]) >= number ? 0 : UINT64_MAX;
	}
	start = read_once(&page->start_ns[round]);
	return start ? start : UINT64_MAX;
}

static void ring(const struct board *board, unsigned int flow)
{
	struct sockaddr_un name;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	name_of(board, flow, &name);
	/* A reader that is closed, or was notified and has not read yet, need not be notified. */
	if (fd >= 0) {
		(void)sendto(fd, "", 1, 0, (struct sockaddr *)&name, sizeof(name));
		close(fd);
	}
}

/* The last message of a round ends it, whoever sees it. */
static void try_end(struct board_page *page, uint64_t messages, uint64_t now)
{
	uint64_t round = messages / page->steps - 1, none = 0;

	for (unsigned int flow = 0; flow < page->flows; flow++)
		if (read_once(&page->done[flow]) < messages)
			return;
	if (round >= BOARD_ROUNDS ||
	    !__atomic_compare_exchange_n(&page->end_ns[round], &none, now, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	if (round + 1 < BOARD_ROUNDS)
		__atomic_store_n(&page->start_ns[round + 1], now + page->rest_ns, __ATOMIC_RELEASE);
}

void board_done(struct board *board, unsigned int flow, uint64_t messages, uint64_t now)
{
	struct board_page *page = board->page;

	if (flow >= page->flows)
		return;
	__atomic_store_n(&page->done[flow], messages, __ATOMIC_SEQ_CST);
	if (messages % page->steps) {
		ring(board, (flow + 1) % page->flows);
		return;
	}
	try_end(page, messages, now);
	if (messages / page->steps < BOARD_ROUNDS &&
	    read_once(&page->start_ns[messages / page->steps]))
		for (unsigned int other = 0; other < page->flows; other++)
			ring(board, other);
}

uint64_t *board_line(struct board *board, unsigned int host)
{
	return &board->page->line_ns[host % BOARD_FLOWS];
}
