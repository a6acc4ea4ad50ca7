/** Help texts. */

export const help = {
  agent: `
Examples:
  $ cella agent 'Write tests for src/price.py and run them'
  $ cella agent 'Now make them pass' --mode auto-edit
  $ cella agent 'What would you change?' --mode plan --session ses_k3v7q2mzp4abcdef
  $ cella agent - < task.md --with claude --model claude-sonnet-4-5
  $ cella agent 'Where is the price rounded?' --tools Read,Bash
  $ cella agent 'Count the lines' --json | jq -r 'select(.type == "item_completed").text'

The agent works in the workspace and the kernel of a session at a server, in isolation, and goes on
with its conversation from one prompt to the next. What it says is on stdout, what it does on stderr.

Before it does what its mode does not allow, you are asked: y once, s for this session, a always, n no,
with a reason that the agent is told. Where nobody can be asked here, it waits for \`cella permissions\`.
Modes: ask (reads only), auto-edit (changes files of the workspace), plan (changes nothing), bypass
(everything; only in an isolated environment).

Ctrl-C stops the turn, a second one leaves.

Exit codes:
  0    the turn is complete         124    its time was over
  1    it failed                    130    it was stopped, or you left
  2    this command line is wrong`,
};
