/** Help texts. */

export const help = {
  credentials: `
Examples:
  $ cella credentials set anthropic                     asks for the key, and does not show it
  $ cella credentials set openai < key-file
  $ cella credentials list
  $ cella credentials delete openai
  $ cella credentials rotate                            another master key, for administrators

A credential is your key of a model provider: anthropic, openai or gemini. Agents that work for you use
it through the server, and never hold it. The server keeps it encrypted and never shows it again. Whoever
prompts uses a key of their own; nobody's stands in for another's.`,
  set: `
Examples:
  $ cella credentials set anthropic
  $ pass show anthropic | cella credentials set anthropic
  $ cella credentials set gemini --user ada < key-file

The key is read from stdin, or asked for at a terminal. It is no argument: those can be seen by every
user of this machine. It takes the place of the one before.`,
  list: `
Examples:
  $ cella credentials list
  $ cella credentials list --user ada --json

Which providers there is a key for, and since when. Nothing of the keys is shown.`,
  remove: `
Examples:
  $ cella credentials delete openai
  $ cella credentials delete openai --user ada`,
  rotate: `
Examples:
  $ cella credentials rotate

Encrypts every credential of every user anew. Where the master key is a file of the data folder, another
one takes its place. Where it is CELLA_MASTER_KEY, start the server with the new one there and the one
before in CELLA_OLD_MASTER_KEY, then run this. What no key opens is told and left as it is.`,
};
