/** Help texts. */

export const help = {
  artifacts: `
Examples:
  $ cella artifacts put sales.csv ./sales.csv --description 'Sales of May'
  $ cella artifacts list
  $ cella artifacts get sales.csv --out copy.csv
  $ cella run -c 'artifacts.load("sales.csv")'

Artifacts outlive agents: the code of every agent of a storage finds them in \`artifacts\`.`,
  list: `
Examples:
  $ cella artifacts list
  $ cella artifacts list --json | jq -r '.artifacts[] | select(.size > 1e6) | .name'`,
  get: `
Examples:
  $ cella artifacts get report.md
  $ cella artifacts get chart.png --out chart.png
  $ cella artifacts get sales.csv | head
  $ cella artifacts get sales.csv --json        what is known of it, without its content

It is read a piece at a time, whatever its size. What is no text is not written to a terminal.`,
  put: `
Examples:
  $ cella artifacts put sales.csv ./sales.csv
  $ date | cella artifacts put today -  --type text
  $ cella artifacts put settings settings.json --type json

What had the name before is replaced, all of it or not at all. Code gets text as str, json as the
value, bytes as bytes, and a file as its bytes.`,
  remove: `
Examples:
  $ cella artifacts delete sales.csv`,
};
