/** Help texts. */

export const help = {
  skills: `
Examples:
  $ cella skills create double double.py --description 'Doubles a number'
  $ cella skills list
  $ cella skills search make a number larger
  $ cella skills run double n=21

A skill is Python with \`async def run(...)\`. The code of every agent of a storage can call it as
\`skills.double(n=21)\`, and make more of them with \`skills.create\`.`,
  list: `
Examples:
  $ cella skills list
  $ cella skills list --json | jq -r '.skills[].name'`,
  show: `
Examples:
  $ cella skills show double
  $ cella skills show double > double.py      the source alone goes to stdout`,
  search: `
Examples:
  $ cella skills search fetch a web page
  $ cella skills search 'statistics of a table' --limit 3 --json

The best comes first. Other words that mean the same are found too.`,
  create: `
Examples:
  $ cella skills create double double.py
  $ printf 'async def run(n: int):\\n    return n * 2\\n' | cella skills create double -
  $ cella skills create double double.py --replace

The source is read, and never run, when it is kept. A name is a Python name.`,
  remove: `
Examples:
  $ cella skills delete double`,
  run: `
Examples:
  $ cella skills run double n=21
  $ cella skills run report title=Sales days=7 --agent ada --timeout 60
  $ cella skills run report --args '{"title": "Sales", "days": 7}' --json

It runs in the sandboxed kernel of the agent, and its result is shown as that of \`cella run\`, with the
same exit codes. A value is text, a number, true or false as the source says of its parameter; where
it says nothing, JSON is taken as such and the rest as text.`,
};
