// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void explain_text(char **error, const char *format, ...)
{
	va_list arguments;

	if (!error)
		return;
	free(*error);
	va_start(arguments, format);
	if (vasprintf(error, format, arguments) < 0)
		*error = NULL;
	va_end(arguments);
}
