/** Whose models the gateway reaches: names alone, for whoever needs no schema. */

export const providers = ['anthropic', 'openai', 'gemini'] as const;
export type Provider = (typeof providers)[number];

/**
 * How an agent gets to its model. `gateway`: through the daemon, which alone knows the key. `just-in-time`: the key goes to
 * the agent's process, when it asks for it.
 */
export const keyModes = ['gateway', 'just-in-time'] as const;
export type KeyMode = (typeof keyModes)[number];
