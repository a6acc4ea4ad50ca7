import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { executorContract } from './executor.ts';

executorContract('subprocess', openSession);

describe('the Python of a subprocess', () => {
  it('is required: without one, nothing starts', async () => {
    await expect(openSession({ python: '/no/such/python' })).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
  });

  it('is given up if it hangs', async () => {
    const python = join(await scratchFolder(), 'python3');
    // Answers questions about itself, and hangs where it is to be a template.
    const facts = JSON.stringify({ version: [3, 11, 0], executable: python, tag: 'cp311-x86_64', packageFolders: [] });
    const script = `#!/bin/sh\ncase "$*" in *template*) exec sleep 1000;; esac\necho '${facts}'\n`;
    await writeFile(python, script, { mode: 0o755 });
    await expect(openSession({ python, startTimeoutMs: 300 })).rejects.toMatchObject({
      code: 'TEMPLATE_FAILED',
      message: expect.stringContaining('0.3 s'),
    });
  });
});
