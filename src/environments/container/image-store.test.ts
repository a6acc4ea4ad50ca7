import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Engine } from './engine.ts';
import { buildImage } from './image-store.ts';

test('building stops if the program that packs the image was stopped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cella-packer-'));
  const python = join(folder, 'python3');
  writeFileSync(python, '#!/bin/sh\ncase "$*" in *cella_image*) kill -STOP $$;; esac\nexec python3 "$@"\n');
  chmodSync(python, 0o755);
  const stop = new AbortController();
  try {
    const engine = {} as Engine; // not called before the packer has written something
    const built = buildImage(engine, { python, version: '0', signal: stop.signal });
    await expect(built).rejects.toMatchObject({ code: 'CONTAINER_FAILED', message: /was stopped/ });
  } finally {
    stop.abort(); // ends the packer, even if the test fails
    rmSync(folder, { recursive: true });
  }
}, 20_000);
