/** Keys of model providers on the wire: they go in, and never come out again. */

import { z } from 'zod';
import { UserId, UserName } from './access.ts';
import { providers } from './providers.ts';

export const ProviderName = z.enum(providers);

/** It goes into a header as it is. */
export const CredentialValue = z
  .string()
  .regex(/^[!-~]{8,16384}$/, 'must be 8 to 16384 printable ASCII characters without blanks');

/** All that anybody can know of a credential. */
export const CredentialInfo = z
  .object({
    provider: ProviderName,
    userId: UserId,
    userName: UserName,
    createdAt: z.number(),
    /** When its value was last set. */
    updatedAt: z.number(),
  })
  .meta({ id: 'Credential' });
export type CredentialInfo = z.infer<typeof CredentialInfo>;

export const SetCredential = z.strictObject({
  value: CredentialValue,
  /** Another user's name, for admins. */
  user: UserName.optional(),
});
export type SetCredential = z.infer<typeof SetCredential>;

/** `left` are those that no key at hand opens: they are as they were. */
export const Rotation = z.object({
  rotated: z.int(),
  left: z.array(z.object({ userId: z.string(), provider: z.string() })),
});
export type Rotation = z.infer<typeof Rotation>;
