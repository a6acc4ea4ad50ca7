/** The routes of credentials: the keys of model providers. */

import { z } from 'zod';
import { CredentialInfo, ProviderName, Rotation, SetCredential } from '../access-models.ts';
import { adminOnly, anyUser, endpoint } from './endpoint.ts';

const credentialsTag = 'Credentials';
const OfProvider = z.object({ provider: ProviderName });
const OfUser = z.strictObject({
  user: z.string().max(128).optional().meta({ description: 'Another user, for administrators.' }),
});

export const SetCredentialRoute = endpoint('put /v1/credentials/{provider}', credentialsTag, anyUser, {
  summary: 'Keep your key of a model provider, encrypted; it is never shown again',
  audit: 'credential.set',
  params: OfProvider,
  body: SetCredential,
  result: CredentialInfo,
});

export const ListCredentials = endpoint('get /v1/credentials', credentialsTag, anyUser, {
  summary: 'Of which providers you have a key here; nothing of the keys',
  query: OfUser,
  result: z.object({ credentials: z.array(CredentialInfo).readonly() }),
});

export const DeleteCredential = endpoint('delete /v1/credentials/{provider}', credentialsTag, anyUser, {
  summary: 'Delete your key of a model provider',
  audit: 'credential.delete',
  params: OfProvider,
  query: OfUser,
});

export const RotateCredentials = endpoint('post /v1/credentials/rotate', credentialsTag, adminOnly, {
  summary: 'Encrypt every credential anew, under another master key',
  audit: 'credential.rotate',
  result: Rotation,
});
