/** Help texts. */

export const help = {
  tokens: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d > ci-token
  $ cella tokens create --name laptop --user ada        for another user, as an administrator
  $ cella tokens list
  $ cella tokens revoke k3v7q2mzp4abcdef

A token is how a program gets in. It is shown once, when it is made; the server keeps no copy. They
are those of the server on the data folder, or of --url or CELLA_URL with a token of yours.

Scopes, each with those before it: view, use, manage; and tokens, admin. What a request may do is what
the role of the user and the scopes of the token both allow.`,
  list: `
Examples:
  $ cella tokens list
  $ cella tokens list --user ada --json | jq -r '.tokens[].id'`,
  create: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d
  $ export CELLA_TOKEN=$(cella tokens create --name today --expires 12h)
  $ cella tokens create --name grafana --scopes view --json | jq -r .token

The token alone is on stdout, what is to be known of it on stderr. Without --scopes it may do all that
you and its user both may; without --expires it works until it is revoked. The scope use is for
sessions that are there; the first \`cella run\` of an agent makes its own, which needs manage.`,
  revoke: `
Examples:
  $ cella tokens revoke k3v7q2mzp4abcdef

Nobody gets in with it from the next request on, nor with browser logins that were made by it.`,
};
