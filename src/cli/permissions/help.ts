/** Help texts. */

export const help = {
  permissions: `
Examples:
  $ cella permissions list                          what waits for you, in all your sessions
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'npm test *'
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'use the staging host'
  $ cella permissions rules list

What an agent, or a tool that requires approval, waits for can be decided here while it runs elsewhere.
The first decision counts. docs/permissions.md tells what patterns mean.`,
  list: `
Examples:
  $ cella permissions list
  $ cella permissions list --session default --all
  $ cella permissions list --json | jq -r '.permissions[].id'`,
  allow: `
Examples:
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope always
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'git log *'
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --text 'the second one'

--scope once, the default, is for this time. session and always make a rule: for the very same again,
or for what --pattern says. --text is the answer to a question.`,
  deny: `
Examples:
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'not on a Friday'

The agent is told the reason, and goes on.`,
  rules: `
Examples:
  $ cella permissions rules list
  $ cella permissions rules add Bash 'git status'
  $ cella permissions rules add Edit '/agent/workspace/src/**'
  $ cella permissions rules rm rul_k3v7q2mzp4abcdef

Rules of yours hold for agents that you prompt and code that you run, in every session. With --session
they are those that were made for that session alone.`,
};
