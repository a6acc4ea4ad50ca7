/** The words for who may do what. They load nothing, so that a command line can offer them. */

/** From the one that may least to the one that may most. */
export const roles = ['viewer', 'member', 'admin'] as const;

/** On a session, each with those before it: look at it; run code in it and change its files; change, share and delete it. */
export const rights = ['view', 'use', 'manage'] as const;

/** What a token is for. The first three bound the rights on sessions; `tokens` is for one's own tokens, `admin` for all else. */
export const scopes = [...rights, 'tokens', 'admin'] as const;
