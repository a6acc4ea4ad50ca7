/** What agents need to reach models: credentials, the gateway, recorded usage, and just-in-time keys. */

import type { Logger } from 'pino';
import type { KeyMode, Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { SessionTokens, TokenBinding } from '../access/session-tokens.ts';
import { CredentialStore } from '../credentials/credential-store.ts';
import type { EnvironmentKeys } from '../credentials/master-key.ts';
import { type GatewayParts, ModelGateway } from './gateway.ts';
import { type ModelPolicy, modelPolicy } from './model-policy.ts';
import { UsageLedger } from './usage-ledger.ts';

export interface ModelServiceOptions
  extends Pick<GatewayParts, 'onUsage' | 'upstreamTimeouts' | 'mostBytes' | 'mostCalls' | 'clock'> {
  readonly documents: DocumentStore;
  readonly access: Pick<AccessControl, 'users' | 'sessionTokens' | 'quotas'> & Partial<Pick<AccessControl, 'audit'>>;
  readonly dataDir: string;
  readonly masterKey?: EnvironmentKeys | undefined;
  readonly settings?: Partial<ServerConfig['gateway']> | undefined;
  readonly log?: Logger | undefined;
}

export class ModelService implements AsyncDisposable {
  readonly credentials: CredentialStore;
  readonly usage: UsageLedger;
  readonly rules: ModelPolicy;
  readonly gateway: ModelGateway;
  readonly #tokens: AccessControl['sessionTokens'];
  readonly #log: Logger | undefined;

  constructor({ documents, access, dataDir, masterKey, settings, ...rest }: ModelServiceOptions) {
    const { users, sessionTokens: tokens, quotas } = access;
    this.#tokens = tokens;
    this.#log = rest.log;
    this.credentials = new CredentialStore({ documents, users, dataDir, masterKey });
    this.usage = new UsageLedger(documents);
    this.rules = modelPolicy(settings);
    const { credentials, usage, rules } = this;
    this.gateway = new ModelGateway({
      ...{ ...rest, tokens, credentials, usage, rules, quotas },
      refused: (refusal) => access.audit?.refused(refusal),
    });
  }

  /** For `get_api_key` of an executor. Throws FORBIDDEN unless keys are released just in time. */
  releaseKey(asked: {
    readonly token: string;
    readonly provider: Provider;
    readonly expected?: Partial<TokenBinding>;
  }): Promise<string> {
    const { credentials, rules } = this;
    return releaseKey({ keys: rules.keys, tokens: this.#tokens, credentials }, asked);
  }

  async forgetUser(userId: string): Promise<void> {
    await this.credentials.forgetUser(userId);
    await this.usage.forgetUser(userId);
  }

  /** Logs usage that still cannot be saved at the end: it is recorded nowhere else. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
    for (const [usageOf, { models: _models, ...counts }] of await this.usage.settle()) {
      this.#log?.error({ usageOf, ...counts }, 'model usage that could not be stored');
    }
  }
}

interface KeyReleaseContext {
  readonly keys: KeyMode;
  readonly tokens: Pick<SessionTokens, 'check'>;
  readonly credentials: Pick<CredentialStore, 'reveal'>;
}

/** The prompting user's key. Throws FORBIDDEN if keys stay behind the gateway. */
async function releaseKey(
  { keys, tokens, credentials }: KeyReleaseContext,
  { token, provider, expected }: { token: string; provider: Provider; expected?: Partial<TokenBinding> },
): Promise<string> {
  const { userId } = await tokens.check(token, expected);
  if (keys === 'just-in-time') return await credentials.reveal(userId, provider);
  throw new CellaError('FORBIDDEN', 'This server does not give out keys: agents reach models through the gateway.', {
    advice: 'Call the model at the gateway, with the session token as its key; see docs/gateway.md.',
  });
}
