/** Agent keys that nobody can choose: a server keeps the agents of its users under them, as `~user/key`. */

export function isReserved(agentKey: string): boolean {
  return agentKey.startsWith('~');
}
