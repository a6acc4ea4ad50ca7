/** Help texts. */

export const help = {
  users: `
Examples:
  $ cella users add ada --role member      a user; \`cella users login ada\` gives a link for it
  $ cella users list                       all of them
  $ cella users set ada --kernels 4        at most four live kernels
  $ cella users disable ada                out with the next request; everything is kept
  $ cella users remove ada                 gone, with sessions, tokens and logins

They are those of a server: the one on the data folder, by its socket, or that of --url or CELLA_URL
with an administrator's token in --token-file or CELLA_TOKEN. \`cella serve --detach\` starts one.

Roles: a viewer looks at what is shared with it, a member makes sessions of its own, an admin does
everything. docs/access.md tells the rest.`,
  list: `
Examples:
  $ cella users list
  $ cella users list --json | jq -r '.users[] | select(.disabled) | .name'`,
  show: `
Examples:
  $ cella users show ada
  $ cella users show ada --json | jq .quotas`,
  add: `
Examples:
  $ cella users add ada
  $ cella users add ci-bot --role member --kernels 2 --executions 60
  $ cella users add boss@example.org --role admin

A user has no password. It gets in with a link of \`cella users login\`, or with a token of
\`cella tokens create --user NAME --name laptop\`.`,
  set: `
Examples:
  $ cella users set ada --role admin
  $ cella users set ada --memory 4096 --storage none

A quota that is \`none\` is taken away: then the server's own holds, if it has one. What is not named
stays as it is. Everything holds from the next request on.`,
  disable: `
Examples:
  $ cella users disable ada

Nobody gets in as this user from the next request on. Sessions, tokens and files stay, and are there
again after \`cella users enable\`.`,
  enable: `
Examples:
  $ cella users enable ada`,
  remove: `
Examples:
  $ cella users remove ada

Everything of the user is gone: sessions with their files, tokens, logins. \`cella users disable\`
keeps them.`,
  login: `
Examples:
  $ cella users login ada            a link for another user, for administrators
  $ cella users login                one for yourself

The link works once, for 15 minutes, and logs a browser in for seven days.`,
  logout: `
Examples:
  $ cella users logout ada

Ends every browser login of the user at the next request, and login links that nobody has used yet.
Tokens stay: \`cella tokens revoke\` ends those.`,
};
