// SPDX-License-Identifier: BSD-2-Clause
/* escapement(1). */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
