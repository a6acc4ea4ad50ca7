/** A source that is no skill, as an error that says where and why. */

import { CellaError } from '../../protocol/errors.ts';

export function invalidSkill(reason: string, line?: number): CellaError {
  const place = line === undefined ? '' : `, line ${line}`;
  return new CellaError('SKILL_INVALID', `The source is no skill${place}: ${reason}.`, {
    details: { reason, ...(line !== undefined && { line }) },
  });
}
