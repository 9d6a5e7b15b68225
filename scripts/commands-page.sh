#!/bin/sh
# Prints the help of every command and subcommand as Markdown, for docs/reference/commands.md. Takes `wakepath` from the path.
set -eu
export COLUMNS=110

# The names in the list of commands that `wakepath "$@" --help` prints.
subcommands() {
    wakepath "$@" --help | awk '/^Commands:/ { listed = 1; next } /^$/ { listed = 0 } listed && /^  [a-z]/ && $1 != "help" { print $1 }'
}

# The help of one command in a block of its own; descriptions before options, as the terminal shows them.
section() {
    printf '\n## %s\n\n```text\n' "wakepath $*"
    wakepath "$@" --help
    printf '```\n'
}

for command in $(subcommands); do
    section "$command"
    for subcommand in $(subcommands "$command"); do
        section "$command" "$subcommand"
    done
done
