/** Help texts. */

const same = `
What has the same name there stays as it is, and is told, unless --overwrite is given. With names, a
command that finds none of them has the exit code 1.`;

export const help = {
  store: `
Examples:
  $ cella store list
  $ cella store push redis://127.0.0.1:6379           from the files here to Redis
  $ cella store pull ../other/data --only skills      from the files of another Cella
  $ cella store push 'redis://127.0.0.1:6379/?prefix=team' --overwrite

What is copied are tools, skills, artifacts and the list of packages. Agents and their names stay.`,
  list: `
Examples:
  $ cella store list
  $ cella store list 'redis://127.0.0.1:6379/?prefix=team' --json`,
  pull: `
Examples:
  $ cella store pull redis://127.0.0.1:6379
  $ cella store pull ../other/data --only skills,tools
  $ cella store pull ../other/data double grep        only these
${same}`,
  push: `
Examples:
  $ cella store push redis://127.0.0.1:6379
  $ cella store push 'redis://127.0.0.1:6379/?prefix=team' --only artifacts --overwrite
  $ cella store push ./backup
${same}`,
};
