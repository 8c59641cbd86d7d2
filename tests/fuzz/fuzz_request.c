// SPDX-License-Identifier: BSD-2-Clause
/* Any line at the socket: always one whole reply, and never a crash. */
#include <jansson.h>
#include <stdint.h>

#include "../unit/fakes.h"
#include "api/internal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct fake_world the_daemon;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (fake_daemon(&the_daemon, "interfaces: [{name: eth1}]\n"))
		abort();
	fake_port("eth1");
	fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 17);
	fake_qp(ESC_DIRECTION_RX, "fd00::1", "fd00::2", 18);
	events_add(the_daemon.ledger, &(struct event){.kind = &(struct event_kind){.name = "kind"},
						      .subject = "subject",
						      .seen = json_pack("{s:i}", "n", 1)});
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct request reply;
	json_t *answer;

	request_reply(&the_daemon.core, (const char *)bytes, size, ACCESS_CONTROL, &reply);
	if (!reply.text || memchr(reply.text, '\n', reply.bytes) != reply.text + reply.bytes - 1)
		abort();
	answer = json_loadb(reply.text, reply.bytes, 0, NULL);
	if (!json_is_boolean(json_object_get(answer, "ok")))
		abort();
	if (json_is_false(json_object_get(answer, "ok")) &&
	    (reply.follow || !json_is_string(json_object_get(answer, "error"))))
		abort();
	json_decref(answer);
	free(reply.text);
	return 0;
}
