/* screen.c: see screen.h. */
#include "cli/screen.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/macro.h"

enum { COLUMNS_MIN = 20 }; /* below this nothing can be read, whatever is cut */

size_t screen_columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    int64_t columns;
    if (!given || !str_to_int(str_of(given), &columns) || columns <= 0) {
        bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
        columns = is_terminal ? size.ws_col : 0;
    }
    return columns > 0 ? (size_t)MAX(columns, (int64_t)COLUMNS_MIN) : 0;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

size_t screen_width(struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += begins_character(text.p[i]);
    return n;
}

/* How many bytes its first `width` characters are. */
static size_t bytes_of(struct str text, size_t width)
{
    size_t i = 0;
    for (; i < text.n; i++)
        if (begins_character(text.p[i]) && width-- == 0)
            break;
    return i;
}

void screen_add_cut(struct buf *out, struct str text, size_t width)
{
    if (screen_width(text) <= width) {
        buf_add_str(out, text);
        return;
    }
    buf_add(out, text.p, bytes_of(text, width ? width - 1 : 0));
    if (width)
        buf_addz(out, "…");
}

static void add_line_break(struct buf *out, size_t indent)
{
    buf_addf(out, "\n%*s", (int)indent, "");
}

/* A word, broken where the line ends if no line can hold it. The column after it. */
static size_t add_word(struct buf *out, struct str word, size_t columns, size_t column,
                       size_t indent)
{
    while (columns > indent && column < columns && column + screen_width(word) > columns) {
        size_t n = bytes_of(word, columns - column);
        buf_add(out, word.p, n);
        add_line_break(out, indent);
        word = str_skip(word, n);
        column = indent;
    }
    buf_add_str(out, word);
    return column + screen_width(word);
}

void screen_add_wrapped(struct buf *out, struct str text, size_t columns, size_t column,
                        size_t indent)
{
    for (bool is_first = true; text.n > 0; is_first = false) {
        const char *blank = memchr(text.p, ' ', text.n);
        struct str word = {text.p, blank ? (size_t)(blank - text.p) : text.n};
        bool fits = column + 1 + screen_width(word) <= columns;
        if (!is_first && fits) {
            buf_addc(out, ' ');
            column++;
        } else if (!is_first) {
            add_line_break(out, indent);
            column = indent;
        }
        column = add_word(out, word, columns, column, indent);
        text = str_skip(text, word.n + 1);
    }
    buf_addc(out, '\n');
}
