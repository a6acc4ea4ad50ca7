/** What the first session of a host process pays once: the template's start, and the memory that it keeps. */

import type { Session } from '../../src/index.ts';
import { timed } from '../clock.ts';
import { memoryOf } from '../memory.ts';
import { parentOf } from '../processes.ts';
import type { Subjects } from '../subjects.ts';

export interface TemplateStart {
  readonly pid: number;
  /** With the session that it was started for. */
  readonly firstOpenMs: number;
  readonly templateMb: number;
  /** While it is open, the template is. */
  readonly session: Session;
}

export async function measureTemplate(subjects: Subjects): Promise<TemplateStart> {
  const { ms, value } = await timed(() => subjects.cella());
  const pid = parentOf(value.pid);
  return { pid, firstOpenMs: ms, templateMb: memoryOf([pid]).pssMb, session: value };
}
