/** A tool that does nothing without somebody's leave, for sessions of a server. */

export const SAY = `name: say
description: Says
command: echo
requires_approval: true
schema:
  options: {}
  positional: [{ name: words, variadic: true, type: string }]
`;
