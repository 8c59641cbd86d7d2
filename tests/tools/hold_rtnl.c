// SPDX-License-Identifier: BSD-2-Clause
/*
 * hold_rtnl SECONDS: the kernel's RTNL lock is held for that long, as by a slow driver. An ethtool
 * request copies from the caller's memory while it holds the lock; the page that it copies from is
 * delivered late, by userfaultfd. Prints a line when the lock is held.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *call(void *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (ioctl(fd, SIOCETHTOOL, request) < 0)
		perror("hold_rtnl: ethtool");
	close(fd);
	return NULL;
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	struct uffdio_api api = {.api = UFFD_API};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffdio_zeropage zero = {};
	struct ethtool_gfeatures *features;
	struct ifreq request = {.ifr_name = "lo"};
	struct uffd_msg message;
	pthread_t thread;
	char *memory;
	int fd;

	if (argc != 2)
		return 2;
	memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (memory == MAP_FAILED || fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return fail("hold_rtnl: userfaultfd");
	/* The command is on the first page, the size that follows it on the second. */
	features = (struct ethtool_gfeatures *)(memory + page - sizeof(features->cmd));
	features->cmd = ETHTOOL_GFEATURES;
	range.range.start = zero.range.start = (unsigned long)memory + page;
	range.range.len = zero.range.len = page;
	if (ioctl(fd, UFFDIO_REGISTER, &range))
		return fail("hold_rtnl: UFFDIO_REGISTER");
	request.ifr_data = (char *)features;
	if (pthread_create(&thread, NULL, call, &request))
		return fail("hold_rtnl: thread");
	if (read(fd, &message, sizeof(message)) != sizeof(message))
		return fail("hold_rtnl: no fault");
	puts("held");
	fflush(stdout);
	usleep((useconds_t)(strtod(argv[1], NULL) * 1e6));
	if (ioctl(fd, UFFDIO_ZEROPAGE, &zero))
		return fail("hold_rtnl: UFFDIO_ZEROPAGE");
	pthread_join(thread, NULL);
	return 0;
}
