/** Help texts. */

export const help = {
  sessions: `
Examples:
  $ cella sessions list                               those of the server on this machine
  $ cella sessions list --url https://cella.example   those of another
  $ cella sessions attach analyst                     work in one, line by line
  $ cella sessions terminal analyst                   a shell in its sandbox
  $ cella sessions logs analyst --follow              what happens there, as it happens

A session is named by its id or its agent key. Without --url or CELLA_URL it is the server that runs
on the data folder, by its socket; another needs a token, in --token-file or CELLA_TOKEN.`,
  list: `
Examples:
  $ cella sessions list --label team=risk --state idle
  $ cella sessions list --json | jq -r '.sessions[].id'

SETTINGS CHANGED is when the name, labels, shares or options last were, not when one was last used: \`cella ps\`
tells how long each of your agents has been idle.`,
  show: `
Examples:
  $ cella sessions show analyst
  $ cella sessions show ses_0123456789abcdef --json`,
  attach: `
Examples:
  $ cella sessions attach analyst
  $ echo 'print(6 * 7)' | cella sessions attach analyst

Leaving it, with Ctrl-D or exit, leaves the session as it is.`,
  terminal: `
Examples:
  $ cella sessions terminal analyst
  $ cella sessions terminal analyst -- python3 -q

It sees what the code sees: its workspace, its packages, its limits. It ends with the program there, and
with its exit code; whatever the program has started ends with it.`,
  logs: `
Examples:
  $ cella sessions logs analyst
  $ cella sessions logs analyst --after 120 --follow
  $ cella sessions logs analyst --json | jq -c 'select(.type == "result")'`,
  confirm: `
Examples:
  $ cella sessions confirm my-copy

A fork of another user's session holds that user's variables and code. Until you confirm it, its code reaches none of
your tools, skills, artifacts and packages, and no agent works in it. Look at it first:
  $ cella sessions terminal my-copy         its files, in its sandbox
  $ cella sessions logs my-copy             what ran in it

Confirming saves its variables and starts its kernel again, in a sandbox apart from the other user's.`,
  rm: `
Examples:
  $ cella sessions rm analyst

Everything of it is gone: kernel, names, workspace, events and checkpoints.`,
};
