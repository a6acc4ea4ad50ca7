/** Help texts. */

export const help = {
  agents: `
Examples:
  $ cella agents list              which coding agents there are, and which are installed
  $ cella agents install claude    bring Claude's program, about 410 MB
  $ cella agents remove claude

These are the programs that work on a prompt. \`cella ps\` shows the agents whose kernels Cella keeps.
See docs/agents.md.`,
  install: `
Examples:
  $ cella agents install claude
  $ cella agents install claude --version 0.3.325
  $ cella agents install claude --data /srv/cella

It is brought with npm from its registry, and no script of a package is run. One that is stopped or
fails leaves nothing behind. What was installed last is used from the next prompt on; without --version
that is the one that Cella is tested with.`,
  list: `
Examples:
  $ cella agents list
  $ cella agents list --json | jq -r '.agents[] | select(.ready) | .agent'`,
  remove: `
Examples:
  $ cella agents remove claude
  $ cella agents remove claude --version 0.3.325

Conversations of agents lie with their sessions, and stay.`,
};
