/** Secrets by name: looked up when a tool needs them, passed only to the tool, and removed from its output. */

import { CellaError } from '../../protocol/errors.ts';
import type { Auth } from './tool-definition.ts';
import { hasControl } from './tool-output.ts';

export type CredentialLookup = (name: string) => Promise<string | undefined>;

/** An empty secret counts as missing. */
async function lookUp(credentials: CredentialLookup | undefined, name: string, tool: string): Promise<string> {
  const secret = await credentials?.(name);
  if (secret !== undefined && secret !== '') return secret;
  const message = `The tool ${tool} needs the credential ${name}, which does not exist.`;
  throw new CellaError('CREDENTIAL_MISSING', message, { details: { tool, credential: name } });
}

type CredentialEnvironment = Readonly<Record<string, string | { readonly credential: string }>>;

export async function resolveEnvironment(
  env: CredentialEnvironment,
  credentials: CredentialLookup | undefined,
  tool: string,
): Promise<{ readonly env: Readonly<Record<string, string>>; readonly secrets: readonly string[] }> {
  const resolved: Record<string, string> = {};
  const secrets: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    resolved[name] = typeof value === 'string' ? value : await lookUp(credentials, value.credential, tool);
    if (typeof value !== 'string') secrets.push(resolved[name]);
  }
  return { env: resolved, secrets };
}

export interface Authentication {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** All forms in which the secret is sent. */
  readonly secrets: readonly string[];
}

export async function authenticate(
  auth: Auth | undefined,
  credentials: CredentialLookup | undefined,
  tool: string,
): Promise<Authentication> {
  if (auth === undefined) return { headers: {}, query: {}, secrets: [] };
  const secret = await lookUp(credentials, auth.credential, tool);
  if (hasControl(secret)) {
    throw new CellaError(
      'CREDENTIAL_MISSING',
      `The credential ${auth.credential} of the tool ${tool} contains a control character.`,
    );
  }
  switch (auth.type) {
    case 'bearer':
      return { headers: { authorization: `Bearer ${secret}` }, query: {}, secrets: [secret] };
    case 'basic': {
      const pair = Buffer.from(`${auth.username}:${secret}`).toString('base64');
      return { headers: { authorization: `Basic ${pair}` }, query: {}, secrets: [secret, pair] };
    }
    case 'header':
      return { headers: { [auth.name]: secret }, query: {}, secrets: [secret] };
    case 'query':
      return { headers: {}, query: { [auth.name]: secret }, secrets: [secret, encodeURIComponent(secret)] };
  }
}

/** Removes secrets from output, as a tool may print what it was given. */
export function redact(text: string, secrets: readonly string[]): string {
  const forms = secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  return forms.reduce((struck, form) => struck.replaceAll(form, '[credential]'), text);
}
