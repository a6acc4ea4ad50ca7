/** Agent keys that nobody can choose: a server keeps the agents of its users under them, as `~user/key`. */

export function isReserved(agentKey: string): boolean {
  return agentKey.startsWith('~');
}

/** Whose agent a key of storage means, and the key that this user knows it by; without `user`, that of no other user. */
export function readStorageKey(storageKey: string): { readonly user?: string; readonly agentKey: string } {
  const [, user, agentKey] = /^~([^/]+)~[a-z0-9]{12}\/(.*)$/s.exec(storageKey) ?? [];
  return user === undefined || agentKey === undefined ? { agentKey: storageKey } : { user, agentKey };
}
