/** What follows the options in each command's help: examples, and what the exit codes mean. */

export const program = `
Examples:
  $ cella run -c '6 * 7'              run code, see its value
  $ cella run analysis.py             run a file
  $ cella repl                        try things out line by line
  $ cella chat                        Python, shell, undo and checkpoints in one place
  $ cella agent 'Fix the tests'       prompt a coding agent at a server
  $ cella permissions list            what agents wait for your leave to do
  $ cella profiles list               what you have set up for coding agents
  $ cella checkpoints create before   keep the names of an agent as they are
  $ cella fork other                  make another agent with the same names
  $ cella ps                          see all agents
  $ cella deps add pandas             give the code a package
  $ cella skills list                 Python that agents keep for later
  $ cella tools call grep TODO a.txt  what code can call, called by hand
  $ cella artifacts get report.md     what agents have made
  $ cella store push redis://HOST     copy all of these to another storage
  $ cella serve                       serve kernels to a team: REST, WebSocket, users and rights
  $ cella sessions list               see what lives at a server
  $ cella users add ada               let others use it; \`cella tokens\` for programs
  $ cella credentials set anthropic   give agents a key that they never hold
  $ cella mcp                         serve a kernel to Claude, an IDE or an agent, over MCP
  $ cella image build                 make the image that kernels in containers run in
  $ cella agents install claude       bring a coding agent that works in a session
  $ cella doctor                      see what this machine can isolate

Settings:
  A flag wins over a variable, and that over the config file: config.yaml in the data folder, or the
  one that --config or CELLA_CONFIG names. There, \`--max-kernels 8\` is \`max-kernels: 8\`.
  CELLA_DATA_DIR, CELLA_PYTHON, CELLA_EXECUTOR, CELLA_STORAGE, CELLA_REDIS and the like stand for the
  flags of that name. These have none, and stand in no file:
    CELLA_TOKEN              the token for the server at CELLA_URL
    CELLA_MCP_TOKEN          the bearer token of \`cella mcp --http\`
    CELLA_MASTER_KEY         what a server encrypts credentials with; see docs/credentials.md
    CELLA_CREDENTIAL_NAME    the secret of that name, for tools that mention it
    NO_COLOR                 any text turns colours off
  docs/settings.md has all of them in one table.

Run \`cella <command> --help\` for a command's options, examples and exit codes.`;

export const run = `
Examples:
  $ cella run -c 'import sys; sys.version'
  $ cella run report.py --timeout 30 --memory 512
  $ echo 'print(input("Name? "))' > ask.py; echo Ada | cella run ask.py
  $ generate-code | cella run -       read the program from stdin
  $ cella run job.py --json | jq .    read the events from another program
  $ cella run --agent ada -c 'x = 41'; cella run --agent ada -c 'x + 1'
  $ cella run --network allow:pypi.org,*.example.org fetch.py  reach these hosts alone
  $ cella run --transaction rollback_always -c 'x = 0'      a dry run
  $ cella run --sync-deps --no-runtime-deps report.py       all packages first, and no others
  $ cella run --executor container -c 'import os; os.uname()'

Names, functions and imports stay with the agent from one run to the next, and so do its files.
What the code prints goes to stdout and stderr as it comes; the last value's repr follows on stdout.
input() is answered at the terminal, or from stdin, a line each; at its end the code gets EOFError.
--timeout does not count the time a person takes to answer; from a pipe, each answer has that long.
Ctrl-C interrupts the code, a second one ends the command.

--transaction, for names, modules and the working folder (files and what was sent elsewhere stay):
  commit_always         keep all changes; the default
  rollback_on_failure   take them back where the code fails, also under the name commit_on_success
  rollback_always       take them back in any case: a dry run

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

export const chat = `
Examples:
  $ cella chat                            an agent of its own, dropped at the end
  $ cella chat --agent ada                go on with an agent
  $ cella chat --auto-py                  every line is Python
  $ printf '/py x = 123\\n/py print(x)\\n' | cella chat

Commands of a chat:
  /py CODE           run Python; /py alone takes several lines, /py reset clears all names
  /sh COMMAND        run a shell command in the same sandbox and folder; it is confirmed first
  /agent [NAME]      choose the coding agent that plain lines go to, as --with does
  /cwd               tell the folder the code works in
  /vars              list the names of the code
  /undo              go back to before the last cell, up to five times
  /checkpoint NAME   keep this moment; /checkpoints lists them, /restore NAME goes back
  /fork KEY          make another agent with the same names
  /history [N]       show the last cells
  /deps, /skills, /tools, /artifacts   list them; /help NAME tells what else they do
  /help [COMMAND]    show all commands, or more about one
  /quit              leave, as Ctrl-D does

At a terminal, Tab completes, and Ctrl-C interrupts what runs or clears the line.
Where stdin is no terminal its lines are taken the same way, /sh needs --auto-sh, and the exit
code is 1 if the last line failed.`;

export const doctor = `
Examples:
  $ cella doctor
  $ cella doctor --python ~/venv/bin/python
  $ cella doctor --json | jq .ok
  $ cella doctor --redis redis://127.0.0.1:6379    also whether it would survive a restart

The exit code is 0 where sandboxed code can run, and 1 where something that is needed is missing, or
the chosen Redis does not answer. It also tells which of the three executors can run here, what the
others lack, and which program installs packages.`;

export const bench = `
Examples:
  $ cella bench
  $ cella bench --json > numbers.json
  $ cella bench --only daemon`;

export const checkpoints = `
Examples:
  $ cella checkpoints create before --agent ada
  $ cella checkpoints list --agent ada
  $ cella checkpoints show before --agent ada
  $ cella checkpoints restore before --agent ada

A checkpoint holds names, functions, classes and imports, in the data folder: it outlives processes
and reboots. What could not be saved is told by name, with the reason. Cella makes automatic saves
besides; they are what an agent wakes up with.`;

export const list = `
Examples:
  $ cella checkpoints list --agent ada
  $ cella checkpoints list --json | jq -r '.checkpoints[].id'

Works without a kernel, and also while another process holds the agent.`;

export const create = `
Examples:
  $ cella checkpoints create before
  $ cella checkpoints create 'clean data' --agent ada --json

Names need not differ: where several have one name, the newest is meant.
No other process must hold the agent.`;

export const restore = `
Examples:
  $ cella checkpoints restore before --agent ada
  $ cella checkpoints restore 3f2a9c1e

The next \`cella run\` of this agent begins with the names of the checkpoint. Files stay as they are.`;

export const show = `
Examples:
  $ cella checkpoints show before --agent ada
  $ cella checkpoints show 3f2a9c1e --json | jq .checkpoint.lost`;

export const remove = `
Examples:
  $ cella checkpoints delete before --agent ada
  $ cella checkpoints delete 3f2a9c1e

Without its newest automatic save, an agent wakes up with the one before.`;

export const fork = `
Examples:
  $ cella fork ada-2 --agent ada      ada-2 gets the names of ada
  $ cella run --agent ada-2 -c 'x'    and goes on by itself

Both work in the same folder, that of the first. A name that cannot be saved is not in the fork,
and is told.`;

export const ps = `
Examples:
  $ cella ps
  $ cella ps --json | jq -r '.agents[] | select(.state == "live") | .agentKey'

A live agent is held by a process, whose number is shown. One that is hibernated comes back with its
names at the next call.`;

export const mcp = `
Examples:
  $ claude mcp add cella -- cella mcp                 add it to Claude Code
  $ cella mcp --cwd . --network host                  work on the files here, with network
  $ cella mcp --no-runtime-deps --tools ./tools       locked packages, your own tools
  $ cella mcp --http 8765                             serve HTTP at http://127.0.0.1:8765/mcp

In the settings of another client (an IDE, Claude Desktop):
  { "mcpServers": { "cella": { "command": "cella", "args": ["mcp"] } } }

The client starts this command, and speaks MCP with it on stdin and stdout; messages for people go to
stderr. The model gets run_code, which runs Python in a kernel that keeps its state, and tools to look
at and change what code can use: tools, skills, artifacts and packages. See docs/mcp.md.

Without --agent the kernel belongs to the folder this was started in, so that two projects do not meet.
It starts at the first call. When the client goes away, or at SIGTERM, names are saved.

--http asks every client for a bearer token. It is CELLA_MCP_TOKEN, else in --token-file, else it is
made, kept in the data folder, and its place told on stderr. A token is never an argument, for every
user of the machine can see those.`;
