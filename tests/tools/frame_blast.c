// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sends the frames of a file, again and again, at a rate: past the queueing
 * discipline, so that nothing of ours at the sender touches them.
 * frame_blast INTERFACE FILE FRAMES_PER_SECOND SECONDS [OTHER_FILE ORDER]
 * FILE: two bytes of length, little-endian, and the frame, for each frame.
 * ORDER, such as ABBA: a slice of SECONDS for each letter, with the frames of FILE (A) or of
 * OTHER_FILE (B), without a pause between them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define FRAMES_MAX 65536

struct frames {
	struct iovec all[FRAMES_MAX];
	size_t count, turn;
};

static struct frames files[2];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool read_frames(const char *path, struct frames *frames)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint8_t *data;
	size_t at = 0, size;

	if (fd < 0 || fstat(fd, &status))
		return false;
	size = (size_t)status.st_size;
	data = malloc(size + 1);
	if (!data || read(fd, data, size) != status.st_size)
		return false;
	close(fd);
	while (at + 2 <= size && frames->count < FRAMES_MAX) {
		size_t bytes = data[at] | (size_t)data[at + 1] << 8;

		if (at + 2 + bytes > size)
			return false;
		frames->all[frames->count].iov_base = data + at + 2;
		frames->all[frames->count++].iov_len = bytes;
		at += 2 + bytes;
	}
	return frames->count > 0;
}

static int open_socket(const char *interface)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1, bytes = 8 << 20;

	if (fd < 0 || !address.sll_ifindex ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

/* How many of @count frames left; the rest found no room. */
static unsigned int send_batch(int fd, struct frames *frames, unsigned int count)
{
	struct mmsghdr messages[BATCH] = {0};
	unsigned int i;
	int sent;

	for (i = 0; i < count; i++) {
		messages[i].msg_hdr.msg_iov = &frames->all[frames->turn++ % frames->count];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	sent = sendmmsg(fd, messages, count, 0);
	return sent < 0 ? 0 : (unsigned int)sent;
}

static void wait_until(uint64_t at_ns)
{
	struct timespec at = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

struct slice {
	uint64_t begun_ns, end_ns, sent, failed;
};

/* From when @slice began, at one frame each @step_ns / BATCH. */
static void send_slice(int fd, struct frames *frames, struct slice *slice, uint64_t step_ns)
{
	uint64_t due_ns = slice->begun_ns;

	while (now_ns() < slice->end_ns) {
		unsigned int left = send_batch(fd, frames, BATCH);

		slice->sent += left;
		slice->failed += BATCH - left;
		due_ns += step_ns;
		wait_until(due_ns);
	}
	slice->end_ns = now_ns();
}

static void send_order(int fd, const char *order, uint64_t step_ns, uint64_t slice_ns)
{
	struct slice all = {.begun_ns = now_ns()};

	printf("{\"slices\":[");
	for (const char *letter = order; *letter; letter++) {
		struct slice slice = {.begun_ns = now_ns()};

		slice.end_ns = slice.begun_ns + slice_ns;
		send_slice(fd, &files[*letter == 'B'], &slice, step_ns);
		printf("%s[%llu,%llu,%llu]", letter == order ? "" : ",",
		       (unsigned long long)slice.begun_ns, (unsigned long long)slice.end_ns,
		       (unsigned long long)slice.sent);
		all.sent += slice.sent;
		all.failed += slice.failed;
		all.end_ns = slice.end_ns;
	}
	printf("],\"sent\":%llu,\"failed\":%llu,\"seconds\":%.3f,\"begun_ns\":%llu}\n",
	       (unsigned long long)all.sent, (unsigned long long)all.failed,
	       (double)(all.end_ns - all.begun_ns) / 1e9, (unsigned long long)all.begun_ns);
}

static bool is_order(const char *text)
{
	return *text && text[strspn(text, "AB")] == '\0';
}

int main(int argc, char **argv)
{
	int fd;

	if ((argc != 5 && argc != 7) || atof(argv[3]) < 1 || (argc == 7 && !is_order(argv[6]))) {
		fprintf(stderr, "usage: frame_blast INTERFACE FILE FRAMES_PER_SECOND SECONDS "
				"[OTHER_FILE ORDER]\n");
		return 2;
	}
	fd = open_socket(argv[1]);
	if (fd < 0 || !read_frames(argv[2], &files[0]) ||
	    (argc == 7 && !read_frames(argv[5], &files[1]))) {
		fprintf(stderr, "frame_blast: %s, %s: %s\n", argv[1], argv[2], strerror(errno));
		return 1;
	}
	send_order(fd, argc == 7 ? argv[6] : "A", (uint64_t)(BATCH * 1e9 / atof(argv[3])),
		   (uint64_t)(atof(argv[4]) * 1e9));
	return 0;
}
