/** Where code could not import something: tells of packages that are configured and that its Python does not have. */

import type { ResultEvent } from '../protocol/execution-events.ts';
import type { SessionApi } from '../session/api.ts';
import type { Terminal } from './terminal.ts';

export async function tellOfLacking(
  { error }: ResultEvent,
  session: Pick<SessionApi, 'deps' | 'executor'>,
  terminal: Terminal,
): Promise<void> {
  if (error?.name !== 'ModuleNotFoundError') return;
  // The traceback has told the failure; whoever cannot be asked has nothing to add.
  const status = await session.deps.status().catch(() => undefined);
  if (!status || status.installed) return;
  const flag = session.executor === 'subprocess' ? '' : ` --executor ${session.executor}`;
  const what = `${status.requirements.join(', ')}: configured, and not all installed for this Python (${status.python})`;
  await terminal.errLines(`cella: ${what}. \`cella deps sync${flag}\` installs what fits it.`);
}
