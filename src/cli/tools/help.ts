/** Help texts. */

export const help = {
  tools: `
Examples:
  $ cella tools add grep.yaml
  $ cella tools list
  $ cella tools show grep
  $ cella tools call grep TODO notes.txt
  $ cella tools call grep.count TODO notes.txt

A tool is described in YAML: a program, an MCP server or an HTTP request; \`cella tools add --help\`
shows one. The code of every agent of a storage can call it as \`tools.grep("TODO", "notes.txt")\`.
--tools DIR, or CELLA_TOOLS, names folders with more definitions.`,
  list: `
Examples:
  $ cella tools list
  $ cella tools list --tools ./tools
  $ cella tools list --json | jq -r '.tools[].name'

A definition that cannot be used is told with its file and line; the others still work.`,
  show: `
Examples:
  $ cella tools show grep
  $ cella tools show grep --json | jq .tool.parameters`,
  search: `
Examples:
  $ cella tools search find text in files
  $ cella tools search weather --limit 3 --json`,
  add: `
Examples:
  $ cella tools add grep.yaml
  $ cella tools add - < grep.yaml
  $ cella tools add grep.yaml --replace

  # grep.yaml
  name: grep
  description: Find lines in a file
  command: grep
  schema:
    options:
      count: { type: boolean }
    positional:
      - { name: pattern, required: true }
      - { name: file, required: true }
  recipes:
    count: { preset: { count: true } }`,
  remove: `
Examples:
  $ cella tools remove grep

A tool in a folder of --tools stays; delete its file there.`,
  call: `
Examples:
  $ cella tools call grep TODO notes.txt
  $ cella tools call grep.count pattern=TODO file=notes.txt      with the grep of \`tools add --help\`
  $ cella tools call weather --args '{"city": "Oslo", "days": 3}' --json
  $ cella tools call deploy target=test --approve

A program runs in the sandbox and workspace of the agent, unless its definition says
\`runs_on: host\`. Values are checked against the types of the definition. A tool that requires
approval is shown and asked about; where there is no terminal to ask at it is refused without
--approve.`,
};
