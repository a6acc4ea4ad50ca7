/** Credentials: they come in here, and never go out. */

import * as wire from '../../../protocol/api/access-routes.ts';
import type { Service } from '../service.ts';

export function addCredentialRoutes({ routes, models: { credentials } }: Service): void {
  routes.add(wire.SetCredentialRoute, async ({ params: { provider }, body: { value, user }, principal, about }) => {
    about({ target: targetOf(provider, user) });
    return await credentials.set(principal, provider, value, user);
  });

  routes.add(wire.ListCredentials, async ({ query: { user }, principal }) => ({
    credentials: await credentials.list(principal, user),
  }));

  routes.add(wire.DeleteCredential, async ({ params: { provider }, query: { user }, principal, about }) => {
    about({ target: targetOf(provider, user) });
    await credentials.delete(principal, provider, user);
    return undefined;
  });

  routes.add(wire.RotateCredentials, async ({ principal }) => credentials.rotate(principal));
}

const targetOf = (provider: string, user: string | undefined): string =>
  user === undefined ? provider : `${provider} of ${user}`;
