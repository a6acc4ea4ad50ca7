import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { FileStorage } from '../../src/storage/file/storage.ts';
import { storageContract } from './storage.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-storage-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

storageContract('file', (place, options) => FileStorage.open(join(folder, place), options));
