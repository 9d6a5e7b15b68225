# Reads the log of `cargo test --no-fail-fast -- --show-output`. Prints the end of what each failed test wrote, then a
# line "failed test: BINARY NAME" for each. Nothing failed, nothing is printed. In plain awk: Debian's is mawk.
#
# What is printed is bounded, because CI keeps only the end of a long log: the last `lines` lines of a test, the first
# `width` characters of a line, the output of `outputs` tests, the names of `names` tests.
BEGIN {
    lines = 30
    width = 400
    outputs = 20
    names = 200
}

/^ +Running .*\(.*\)$/ {
    abort()
    binary = $0
    sub(/\)$/, "", binary)
    sub(/.*[\/(]/, "", binary)
    sub(/-[0-9a-f]+$/, "", binary)
    begin()
    next
}
/^ +Doc-tests / {
    abort()
    binary = $2 " (documentation)"
    begin()
    next
}

{ append("", $0) }

/^failures:$/ {
    # The first such line opens what the tests wrote, the second the list of their names.
    in_failures = 1
    test = ""
    listed = 0
    next
}
in_failures && /^---- .* stdout ----$/ {
    test = substr($0, 6, length($0) - 17)
    written[test] = 0
    next
}
in_failures && test == "" && /^    / {
    list[++listed] = substr($0, 5)
    next
}
/^test result: / {
    if ($3 == "FAILED.")
        for (i = 1; i <= listed; i++)
            report(list[i], list[i])
    running = 0
    in_failures = 0
    next
}
in_failures && test != "" { append(test, $0) }

END {
    abort()
    for (i = 1; i <= reported && i <= names; i++)
        print "failed test: " name[i]
    if (reported > names)
        print "failed tests that are not named here: " reported - names
}

function begin() {
    running = 1
    in_failures = 0
    listed = 0
    written[""] = 0
}

# Keeps the last lines that a test wrote; the test "" is the whole binary.
function append(test, line) {
    kept[test, written[test]++ % lines] = length(line) > width ? substr(line, 1, width) " ..." : line
}

# A binary that was killed or gave up before its result.
function abort() {
    if (running)
        report("(ended without a result)", "")
}

function report(what, test,    i) {
    name[++reported] = binary " " what
    if (reported > outputs)
        return
    print "== " name[reported] " =="
    for (i = written[test] > lines ? written[test] - lines : 0; i < written[test]; i++)
        print "    " kept[test, i % lines]
}
