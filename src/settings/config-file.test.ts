import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readConfig } from './config-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let made = 0;
function file(text: string, mode = 0o644): string {
  const path = join(folder, `${made++}.yaml`);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const read = (path: string, named = true) => readConfig({ path, named });
const told = (text: string, mode?: number) => read(file(text, mode));

describe('a config file', () => {
  it('replaces variables, with paths relative to its folder', async () => {
    const text = `
      host: 0.0.0.0
      port: 8080
      max-kernels: "9"
      idle: 0.5
      insecure-http: true
      no-flush: false
      members-may: [network, folders]
      allow-host: cella.example
      tls-cert: cert.pem
      tools: [tools, /srv/tools]
      extra-index: [https://a/simple, https://b/simple]
      data: ../data
      python: python3.12
    `;
    expect(await told(text)).toEqual({
      CELLA_HOST: '0.0.0.0',
      CELLA_PORT: '8080',
      CELLA_MAX_KERNELS: '9',
      CELLA_IDLE: '0.5',
      CELLA_INSECURE_HTTP: '1',
      CELLA_NO_FLUSH: '0',
      CELLA_MEMBERS_MAY: 'network,folders',
      CELLA_ALLOW_HOST: 'cella.example',
      CELLA_TLS_CERT: join(folder, 'cert.pem'),
      CELLA_TOOLS: `${join(folder, 'tools')}:/srv/tools`,
      CELLA_EXTRA_INDEX: 'https://a/simple https://b/simple',
      CELLA_DATA_DIR: join(folder, '..', 'data'),
      CELLA_PYTHON: 'python3.12',
    });
    expect(await told('python: venv/bin/python')).toEqual({ CELLA_PYTHON: join(folder, 'venv/bin/python') });
  });

  it('can be empty, and can be missing if nobody has named it', async () => {
    expect(await told('')).toEqual({});
    expect(await told('# nothing\n')).toEqual({});
    expect(await read(join(folder, 'none'), false)).toEqual({});
    await expect(read(join(folder, 'none'))).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });

  it.each([
    ['max-kernel: 3', 'there is no setting "max-kernel" (did you mean max-kernels?)'],
    ['maxKernels: 3', 'did you mean max-kernels?'],
    ['log_level: info', 'did you mean log-level?'],
    ['flux-compensator: on', 'there is no setting "flux-compensator"'],
    ['token: cella_x_y', 'there is no setting "token"'],
    ['mcp-token: x', 'there is no setting "mcp-token"'],
    ['port: http', 'port: It must be a port'],
    ['port: 70000', 'port: It must be a port'],
    ['port: [1]', 'port: must be a number'],
    ['insecure-http: maybe', 'insecure-http: must be true or false'],
    ['storage: disk', 'storage: "disk" is unknown; allowed: file, redis'],
    ['members-may: [fly]', 'members-may: "fly" is unknown'],
    ['log-level: loud', 'log-level: "loud" is unknown'],
    ['host: ""', 'host: must not be empty'],
    ['host: 5', 'host: '],
    ['wheels: ["/a:b"]', 'must not contain ":"'],
    ['- host', 'must be settings by their names'],
    ['host', 'must be settings by their names'],
    ['host: a\nhost: b', 'line 2'],
    ['host: [', 'line 1'],
    ['a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]', 'there is no setting "a"'],
  ])('is refused where it says %j', async (text, problem) => {
    const refused = told(text);
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    await expect(refused).rejects.toThrow(problem);
  });

  it('in the data folder cannot set the data folder', async () => {
    await expect(read(file('data: /elsewhere'), false)).rejects.toThrow('the file is in the data folder itself');
  });

  it('is refused if others can change it', async () => {
    for (const mode of [0o664, 0o646, 0o622]) await expect(told('port: 1', mode)).rejects.toThrow('chmod go-w');
    const aside = join(folder, 'aside');
    mkdirSync(aside);
    const link = join(aside, 'config.yaml');
    symlinkSync(file('port: 1', 0o666), link);
    await expect(read(link)).rejects.toThrow('chmod go-w');
    await expect(read(aside)).rejects.toThrow('it is not a file');
  });

  it.each([
    'redis: redis://:hush@localhost',
    'redis: rediss://ada:hush@localhost:6379/1',
    'index: https://ada:hush@pypi.example/simple',
    'extra-index: [https://a/simple, https://hush@b/simple]',
  ])('is refused if it contains a password that others can read, without showing it: %s', async (text) => {
    const refused = told(text);
    await expect(refused).rejects.toThrow('chmod 600');
    await expect(refused).rejects.not.toThrow('hush');
    expect(Object.values(await told(text, 0o600))[0]).toContain('hush');
  });
});
