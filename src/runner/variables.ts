/** The runner's own variables: the environment has made them from nothing, and what runs in it is given them too. */

export function ownVariables(): Record<string, string> {
  const variables: Record<string, string> = {};
  // biome-ignore lint/style/noProcessEnv: this is the one place where the runner reads them.
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined) variables[name] = value;
  return variables;
}
