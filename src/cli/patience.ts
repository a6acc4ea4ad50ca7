/** Tells a person at a screen that a kernel is on its way, where it takes longer than one waits without wondering. */

import type { CommandContext, OpenOptions } from './context.ts';

/** From here on a person wonders whether anything happens at all. */
const STATUS_DELAY_MS = 700;

/** Opens sessions as the given context does. */
export function withStartupStatus({ openSession, terminal }: CommandContext): CommandContext['openSession'] {
  return async (options) => {
    const tell = () => {
      // What cannot be shown here fails again, and is told, with the first output.
      if (terminal.stderrIsScreen) void terminal.status(describeStart(options)).catch(() => {});
    };
    const silence = setTimeout(tell, STATUS_DELAY_MS);
    const onProgress = (text: string) => {
      silence.refresh();
      options.onProgress?.(text);
    };
    try {
      return await openSession({ ...options, onProgress });
    } finally {
      clearTimeout(silence);
      terminal.clearStatus();
    }
  };
}

function describeStart({ executor }: Pick<OpenOptions, 'executor'>): string {
  if (executor === 'in-process') return 'Starting Python in WebAssembly; the first time takes a while';
  if (executor === 'container') return 'Starting a container; the first one of an image takes a while';
  return 'Starting a kernel';
}
