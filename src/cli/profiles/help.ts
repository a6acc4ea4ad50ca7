/** Help texts. */

export const set = `
Examples:
  $ cella profiles set reviewer --from reviewer.yaml
  $ generate-profile | cella profiles set reviewer --from -

reviewer.yaml, of which every part may be left out:
  systemPrompt: You review changes, and change nothing yourself.
  rules:
    style: Be brief. Name the file and the line.
  skills:
    release: |
      ---
      name: release
      description: How a release is made here
      ---
      Run the tests first.
  commands:
    review: Look at the last commit, and say what is wrong with it.
  subagents:
    scout:
      description: Finds where something is done
      prompt: You look around, and tell paths.
      tools: [Read, Grep]
  mcpServers:
    issues: { type: http, url: https://example.org/mcp }
    notes: { type: stdio, argv: [node, notes.mjs] }
  files:
    NOTES.md: "# Notes"

It takes the place of the one before, whole. A file of the profile never takes the place of one that the
workspace has. Programs of MCP servers run in the agent's own sandbox. What is in a profile is no secret
from the agent: keys of model providers belong into \`cella credentials\`.`;

export const help = {
  profiles: `
Examples:
  $ cella profiles set reviewer --from reviewer.yaml
  $ cella agent --profile reviewer 'Look at the last change'
  $ cella profiles list
  $ cella profiles show reviewer > reviewer.yaml         to change it, and set it again
  $ cella profiles delete reviewer

A profile is what you set up for coding agents once, and name with each prompt: a system prompt, rules,
skills, subagents, commands, MCP servers, and files that a workspace has from the start. It is yours, and
kept at the server. \`cella profiles set --help\` shows how one is written.`,
  list: `
Examples:
  $ cella profiles list
  $ cella profiles list --json`,
  show: `
Examples:
  $ cella profiles show reviewer
  $ cella profiles show reviewer --json | jq .profile.rules

Everything that is in it, headers and variables of MCP servers too.`,
  set,
  remove: `
Examples:
  $ cella profiles delete reviewer

Turns that have begun keep it to their end.`,
};
