// SPDX-License-Identifier: BSD-2-Clause
/* The socket as a client meets it, with the daemon's loop turned manually. */
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "fakes.h"
#include "api/api.h"
#include "api/internal.h"

static struct fake_world the_daemon;
static char folder[64], socket_path[128];

static void begin_without_server(void)
{
	char yaml[256];

	strcpy(folder, "/tmp/esc-server-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(socket_path, sizeof(socket_path), "%s/run/e.sock", folder);
	snprintf(yaml, sizeof(yaml), "interfaces: [{name: eth1}]\nsocket: %s\n", socket_path);
	cr_assert_eq(fake_daemon(&the_daemon, yaml), 0);
	cr_assert_geq(sd_event_new(&the_daemon.event), 0);
	the_daemon.core.loop = the_daemon.event;
}

static void begin(void)
{
	char *error = NULL;

	begin_without_server();
	cr_assert_eq(server_new(&the_daemon.server, &the_daemon.core, &error), 0, "%s", error);
}

static void end(void)
{
	char path[160];

	server_free(the_daemon.server);
	cr_expect(access(socket_path, F_OK), "the socket is gone with its server");
	sd_event_unref(the_daemon.event);
	events_free(the_daemon.ledger);
	config_free(the_daemon.config);
	snprintf(path, sizeof(path), "%s.lock", socket_path);
	unlink(path);
	snprintf(path, sizeof(path), "%s/run", folder);
	rmdir(path);
	rmdir(folder);
}

TestSuite(server, .init = begin, .fini = end);

static void turn(int times)
{
	while (times--)
		sd_event_run(the_daemon.event, 1000);
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, socket_path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	turn(2);
	return fd;
}

static void say(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads what there is after some iterations; 0 bytes: nothing, or the end when @ended. */
static size_t hear(int fd, char *out, size_t room, bool *ended)
{
	size_t have = 0;
	ssize_t got = 0;

	*ended = false;
	for (int i = 0; i < 50 && have + 1 < room; i++) {
		turn(1);
		got = recv(fd, out + have, room - 1 - have, 0);
		if (!got) {
			*ended = true;
			break;
		}
		have += got > 0 ? got : 0;
	}
	out[have] = '\0';
	return have;
}

static unsigned int count_lines(const char *text)
{
	unsigned int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

Test(server, is_for_root_and_its_group)
{
	struct stat status;

	cr_assert_eq(stat(socket_path, &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0660);
	*strrchr(socket_path, '/') = '\0';
	cr_assert_eq(stat(socket_path, &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0755, "its folder was made");
	socket_path[strlen(socket_path)] = '/';
}

Test(server, replies_line_by_line)
{
	int fd = connect_client();
	char text[4096];
	bool ended;

	say(fd, "{\"verb\":\"ver");
	cr_expect_eq(hear(fd, text, sizeof(text), &ended), 0, "half a line is not replied to");
	say(fd, "sion\"}\n{\"verb\":\"version\"}\nnonsense\n{\"verb\":\"version\"}\n");
	hear(fd, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 4, "%s", text);
	cr_expect(strstr(text, "not a line of JSON"),
		  "invalid input has a reply, the rest as well");
	cr_expect(!ended);
	close(fd);
}

Test(server, a_reload_is_replied_to_when_its_members_were_read)
{
	int fd = connect_client(), gone = connect_client();
	char text[4096];
	bool ended;

	fake.reload_waits = true;
	say(gone, "{\"verb\":\"reload\"}\n");
	say(fd, "{\"verb\":\"reload\"}\n{\"verb\":\"version\"}\n");
	cr_expect_eq(hear(fd, text, sizeof(text), &ended), 0, "%s", text);
	cr_expect(!ended);
	close(gone);
	turn(2);
	fake.reload_waits = false;
	the_daemon.core.readers->fn(the_daemon.core.readers->context);
	hear(fd, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 2, "%s", text);
	cr_expect_not_null(strstr(text, "config"), "%s", text);
	cr_expect(!ended);
	close(fd);
}

Test(server, replies_to_a_half_closed_client)
{
	int fd = connect_client();
	char text[4096];
	bool ended;

	say(fd, "{\"verb\":\"version\"}\n");
	shutdown(fd, SHUT_WR);
	hear(fd, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 1);
	cr_expect(ended);
	close(fd);
}

Test(server, refuses_a_line_that_does_not_end)
{
	int fd = connect_client(), sent = 0;
	char chunk[4096], text[4096];
	bool ended;

	memset(chunk, 'x', sizeof(chunk));
	while (sent < 80000) {
		ssize_t got = send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL);

		if (got < 0)
			break;
		sent += got;
		turn(2);
	}
	hear(fd, text, sizeof(text), &ended);
	cr_expect(strstr(text, "64 KiB"), "%s", text);
	cr_expect(ended);
	close(fd);
}

Test(server, serves_64_and_refuses_the_next)
{
	int fds[64], more;
	char text[4096];
	bool ended;

	for (int i = 0; i < 64; i++)
		fds[i] = connect_client();
	more = connect_client();
	hear(more, text, sizeof(text), &ended);
	cr_expect(strstr(text, "64 connections"), "%s", text);
	cr_expect(ended);
	close(more);
	close(fds[0]);
	turn(3);
	more = connect_client();
	say(more, "{\"verb\":\"version\"}\n");
	hear(more, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 1, "there is room again");
	close(more);
	for (int i = 1; i < 64; i++)
		close(fds[i]);
}

static void add_event(const char *subject)
{
	events_add(the_daemon.ledger, &(struct event){.kind = &(struct event_kind){.name = "test"},
						      .subject = subject});
}

Test(server, followers_receive_each_event)
{
	int fd = connect_client();
	char text[8192];
	bool ended;

	add_event("before");
	say(fd, "{\"verb\":\"events\",\"args\":{\"follow\":true}}\n");
	hear(fd, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 1);
	add_event("first");
	add_event("second");
	say(fd, "{\"verb\":\"version\"}\n"); /* not received */
	hear(fd, text, sizeof(text), &ended);
	cr_expect_eq(count_lines(text), 2, "%s", text);
	cr_expect(strstr(text, "first") && strstr(text, "second"));
	close(fd);
	turn(3);
	add_event("not received");
	turn(3);
}

/* A follower that does not read costs a bounded amount of memory, then its place. */
Test(server, drops_a_slow_follower)
{
	int fd = connect_client(), listens = connect_client();
	char subject[1024], text[65536];
	bool ended = false;
	size_t heard = 0;

	say(fd, "{\"verb\":\"events\",\"args\":{\"follow\":true}}\n");
	say(listens, "{\"verb\":\"events\",\"args\":{\"follow\":true}}\n");
	turn(4);
	memset(subject, 's', sizeof(subject) - 1);
	subject[sizeof(subject) - 1] = '\0';
	for (int i = 0; i < 4000; i++) {
		add_event(subject);
		turn(1);
		while (recv(listens, text, sizeof(text), 0) > 0)
			;
	}
	while (!ended && heard < 64 << 20) {
		size_t bytes = hear(fd, text, sizeof(text), &ended);

		heard += bytes;
		if (!bytes)
			break;
	}
	cr_expect(ended, "it was dropped");
	cr_expect_lt(heard, 3 << 20, "%zu bytes had waited for it", heard);
	hear(listens, text, sizeof(text), &ended);
	cr_expect(!ended, "a client that reads stays");
	close(fd);
	close(listens);
}

Test(server, a_second_daemon_is_an_error)
{
	struct server *second = NULL;
	char *error = NULL;
	int fd;

	cr_expect_eq(server_new(&second, &the_daemon.core, &error), -EADDRINUSE);
	cr_expect(error && strstr(error, socket_path) && strstr(error, "another escapementd"), "%s",
		  error);
	free(error);
	fd = connect_client();
	close(fd);
}

TestSuite(server_listen, .init = begin_without_server, .fini = end);

Test(server_listen, replaces_a_stale_socket_and_nothing_else)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char run[80], *error = NULL;
	FILE *file;
	int fd;

	snprintf(run, sizeof(run), "%s/run", folder);
	cr_assert_eq(mkdir(run, 0755), 0);
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_expect_eq(server_new(&the_daemon.server, &the_daemon.core, &error), -EADDRINUSE,
		     "another daemon listens");
	free(error);
	error = NULL;
	close(fd); /* as after a crash */
	cr_assert_eq(server_new(&the_daemon.server, &the_daemon.core, &error), 0, "%s", error);
	server_free(the_daemon.server);
	the_daemon.server = NULL;
	file = fopen(socket_path, "w");
	fclose(file);
	cr_expect_eq(server_new(&the_daemon.server, &the_daemon.core, &error), -EEXIST);
	cr_expect(error && strstr(error, "no socket"), "%s", error);
	cr_expect_eq(access(socket_path, F_OK), 0, "another program's file is left alone");
	free(error);
	unlink(socket_path);
}
