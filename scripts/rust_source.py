"""What `circles` and `lines` need to know of Rust source: comments, strings, modules and tests.

What is taken out of a text is blanked out: everything else stays in its line and column.
"""

import re

# Comments, strings and characters; a raw string ends at as many `#` as it began with.
COMMENT_OR_STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'\n])'""", re.S)
# What an ordinary build leaves out; with `!` the rest of the file.
TESTS_ONLY = re.compile(r"#(!?)\[cfg\((?:all\()?(?:test|doctest|loom)\b[^\]]*\]")
# Other attributes and the visibility, and then the word with which an item begins. Fields, enum
# variants and match arms begin with none of these words, and end at a comma.
ITEM_BEGINS = re.compile(
    r"(?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?"
    r"(?:async|const|enum|extern|fn|impl|macro_rules|mod|static|struct|trait|type|union|unsafe"
    r"|use)\b")


def blank(text):
    """As many spaces and line ends as the text has."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """The text without comments, and with nothing but quotes in its strings."""
    def replacement(found):
        is_comment = found[0].startswith(("//", "/*"))
        return blank(found[0]) if is_comment else re.sub(r"[^\n]", '"', found[0])

    return COMMENT_OR_STRING.sub(replacement, text)


def end_of_item(text, at):
    """Where the item that begins at `at` ends: behind its closing brace, semicolon or comma."""
    ends = "};" if ITEM_BEGINS.match(text, at) else "};,"
    depth = 0
    while at < len(text):
        depth += (text[at] in "{([") - (text[at] in "})]")
        at += 1
        if depth < 0 or depth == 0 and text[at - 1] in ends:
            break
    return at


def without_tests(text):
    """A text without comments, with items that are built for tests only blanked out, too."""
    while found := TESTS_ONLY.search(text):
        end = len(text) if found[1] else end_of_item(text, found.end())
        text = text[: found.start()] + blank(text[found.start() : end]) + text[end:]
    return text


def module_files(folder, name):
    """Where the file of a module `name` may lie whose parent's children lie in `folder`."""
    return folder / f"{name}.rs", folder / name / "mod.rs"


def folder_of_children(file):
    """The folder in which the files of a module's children lie."""
    is_root_of_folder = file.name in ("lib.rs", "main.rs", "mod.rs")
    return file.parent if is_root_of_folder else file.with_suffix("")


def children(text):
    """The children of a module that have files of their own. The text has no comments."""
    return set(re.findall(r"\bmod\s+(\w+)\s*;", text))
