/** All that agents need to reach models, put together: credentials, the gateway, what was used, and the other way to a key. */

import type { Provider } from '../../protocol/enums.ts';
import type { GatewaySettings } from '../../settings/settings-table.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import { Credentials } from '../credentials/credentials.ts';
import type { EnvironmentKeys } from '../credentials/master-key.ts';
import type { Logger } from '../http/logs.ts';
import { type GatewayParts, ModelGateway } from './gateway.ts';
import { giveKey } from './give-key.ts';
import { type GatewayRules, gatewayRules } from './settings.ts';
import { UsageLedger } from './usage.ts';

export interface ModelsOptions
  extends Pick<GatewayParts, 'onUsage' | 'patience' | 'mostBytes' | 'mostCalls' | 'clock'> {
  readonly documents: DocumentStore;
  readonly access: Pick<AccessControl, 'users' | 'sessionTokens' | 'quotas'> & Partial<Pick<AccessControl, 'audit'>>;
  readonly dataDir: string;
  readonly masterKey?: EnvironmentKeys | undefined;
  readonly settings?: GatewaySettings | undefined;
  readonly log?: Logger | undefined;
}

export class Models implements AsyncDisposable {
  readonly credentials: Credentials;
  readonly usage: UsageLedger;
  readonly rules: GatewayRules;
  readonly gateway: ModelGateway;
  readonly #tokens: AccessControl['sessionTokens'];
  readonly #log: Logger | undefined;

  constructor({ documents, access, dataDir, masterKey, settings, ...rest }: ModelsOptions) {
    const { users, sessionTokens: tokens, quotas } = access;
    this.#tokens = tokens;
    this.#log = rest.log;
    this.credentials = new Credentials({ documents, users, dataDir, masterKey });
    this.usage = new UsageLedger(documents);
    this.rules = gatewayRules(settings);
    const { credentials, usage, rules } = this;
    this.gateway = new ModelGateway({
      ...{ ...rest, tokens, credentials, usage, rules, quotas },
      refused: (refusal) => access.audit?.refused(refusal),
    });
  }

  /** For `get_api_key` of an executor: FORBIDDEN unless keys are given just in time. */
  giveKey(asked: {
    readonly token: string;
    readonly provider: Provider;
    readonly expected?: Partial<TokenBinding>;
  }): Promise<string> {
    const { credentials, rules } = this;
    return giveKey({ keys: rules.keys, tokens: this.#tokens, credentials }, asked);
  }

  async forgetUser(userId: string): Promise<void> {
    await this.credentials.forgetUser(userId);
    await this.usage.forgetUser(userId);
  }

  /** What was used and cannot be written even at the end stands in the log: nothing else has it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
    for (const [usageOf, { models: _models, ...counts }] of await this.usage.settle()) {
      this.#log?.error({ usageOf, ...counts }, 'usage of models that could not be written down');
    }
  }
}
