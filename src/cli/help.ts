/** What follows the options in each command's help: examples, and what the exit codes mean. */

export const program = `
Examples:
  $ cella run -c '6 * 7'              run code, see its value
  $ cella run analysis.py             run a file
  $ cella repl                        try things out line by line
  $ cella doctor                      see what this machine can isolate

Environment:
  CELLA_AGENT_KEY    who owns the kernel where --agent is not given
  CELLA_DATA_DIR     where Cella keeps its files where --data is not given
  CELLA_PYTHON       the Python where --python is not given
  NO_COLOR           any text turns colours off

Run \`cella <command> --help\` for a command's options, examples and exit codes.`;

export const run = `
Examples:
  $ cella run -c 'import sys; sys.version'
  $ cella run report.py --timeout 30 --memory 512
  $ echo 'print(input("Name? "))' > ask.py; echo Ada | cella run ask.py
  $ generate-code | cella run -       read the program from stdin
  $ cella run job.py --json | jq .    read the events from another program

What the code prints goes to stdout and stderr as it comes; the last value's repr follows on stdout.
input() is answered at the terminal, or from stdin, a line each; at its end the code gets EOFError.
--timeout does not count the time a person takes to answer; from a pipe, each answer has that long.
Ctrl-C interrupts the code, a second one ends the command.

Exit codes:
  0      the code ran to its end          130    it was interrupted
  1      it raised an exception           137    its kernel was killed, or crashed
  2      this command line is wrong       141    the reader of the output went away
  124    --timeout was over               129, 143  ended by SIGHUP, SIGTERM
  Where the code calls sys.exit(n), the exit code is n.`;

export const repl = `
Examples:
  $ cella repl
  $ cella repl --cwd . --network host     work on the files here, with network
  $ printf 'x = 41\\nx + 1\\n' | cella repl

Tab completes, Ctrl-C interrupts what runs or clears the line, Ctrl-D or exit leaves.
Where stdin is no terminal there are no prompts, and the exit code is 1 if the last cell failed.`;

export const doctor = `
Examples:
  $ cella doctor
  $ cella doctor --python ~/venv/bin/python
  $ cella doctor --json | jq .ok

The exit code is 0 where sandboxed code can run, and 1 where something that is needed is missing.`;

export const bench = `
Examples:
  $ cella bench
  $ cella bench --json > numbers.json`;
