/** Credentials: they come in here, and never go out. */

import * as credentialRoutes from '../../../protocol/api/access-routes.ts';
import type { Service } from '../service.ts';

export function addCredentialRoutes({ routes, models: { credentials } }: Service): void {
  routes.add(
    credentialRoutes.SetCredentialRoute,
    async ({ params: { provider }, body: { value, user }, principal, about }) => {
      about({ target: targetOf(provider, user) });
      return await credentials.set(principal, provider, value, user);
    },
  );

  routes.add(credentialRoutes.ListCredentials, async ({ query: { user }, principal }) => ({
    credentials: await credentials.list(principal, user),
  }));

  routes.add(credentialRoutes.DeleteCredential, async ({ params: { provider }, query: { user }, principal, about }) => {
    about({ target: targetOf(provider, user) });
    await credentials.delete(principal, provider, user);
    return undefined;
  });

  routes.add(credentialRoutes.RotateCredentials, async ({ principal }) => credentials.rotate(principal));
}

const targetOf = (provider: string, user: string | undefined): string =>
  user === undefined ? provider : `${provider} of ${user}`;
