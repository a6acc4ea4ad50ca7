/** Logins in a real browser, and what its pages may do: those of the server itself, and those of others. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrowserTest, otherSite, within } from './browser-test.ts';

let browserTest: BrowserTest;
beforeAll(async () => {
  browserTest = await BrowserTest.start();
});
afterAll(() => browserTest?.[Symbol.asyncDispose]());

describe('a login link', () => {
  it('opens the documentation, hides its cookie from scripts, and works once', async () => {
    const page = await browserTest.chromium.page();
    const link = await browserTest.loginLink();
    await browserTest.logIn(page, link);
    expect(await page.evaluate('document.body.innerText')).toContain('/v1/sessions');
    expect(await page.evaluate('document.cookie')).toBe('');
    const { cookies } = await page.send('Network.getCookies');
    expect(cookies).toMatchObject([{ name: 'cella', httpOnly: true, sameSite: 'Strict', session: false }]);
    const another = await browserTest.chromium.page();
    await another.open(link);
    const refused = another.arrival(link);
    await another.evaluate('document.querySelector("button").click(); 0');
    await refused;
    expect(await another.evaluate('document.body.innerText')).toContain('cella users login');
    expect((await another.send('Network.getCookies')).cookies).toEqual([]);
  });

  it('also works if it is opened from a page of another site', async () => {
    await using site = await otherSite('localhost');
    const page = await browserTest.chromium.page();
    await page.open(site.url);
    const link = await browserTest.loginLink();
    const arrived = page.arrival(link);
    await page.evaluate(`location.href = ${JSON.stringify(link)}; 0`);
    await arrived;
    await browserTest.press(page);
    expect(await page.evaluate('document.body.innerText')).toContain('/v1/sessions');
  });
});

describe('a page', () => {
  const create = async (headers: Record<string, string>) => {
    const answer = await fetch('/v1/sessions', { method: 'POST', headers, body: '{"agentKey":"written"}' });
    const { error } = (await answer.json()) as { error?: { code: string } };
    return [answer.status, error?.code ?? 'none'];
  };

  it('of the server itself changes nothing without the CSRF token of the login', async () => {
    const page = await browserTest.loggedIn();
    const csrf = await page.evaluate<string>(`fetch('/v1/me').then((me) => me.json()).then(({ csrf }) => csrf)`);
    expect(await within(page, create, {})).toEqual([403, 'FORBIDDEN']);
    expect(await within(page, create, { 'x-cella-csrf': `${csrf}x` })).toEqual([403, 'FORBIDDEN']);
    expect(await within(page, create, { 'x-cella-csrf': csrf })).toEqual([201, 'none']);
  });

  // Cookies know no port: to another one of the same host the browser sends that of the login along.
  it.each([
    ['at another port', '127.0.0.1', true],
    ['by another name', 'localhost', false],
  ])('from %s of this machine reads nothing, changes nothing and follows nothing', async (_, name, sendsCookie) => {
    const own = await browserTest.loggedIn();
    const { id } = await browserTest.cella.session({ agentKey: `watched from ${name}` });
    const server = browserTest.url;
    const attack = async (server: string, id: string) => {
      const fail = () => 'refused';
      const me = await fetch(`${server}/v1/me`, { credentials: 'include' }).then((answer) => answer.text(), fail);
      const socket = new WebSocket(`${server.replace('http', 'ws')}/v1/sessions/${id}/ws?after=0`);
      const followed = await new Promise<string>((resolve) => {
        socket.onmessage = ({ data }) => resolve(String(data));
        socket.onclose = () => resolve('refused');
      });
      socket.close();
      return { me, followed };
    };
    expect(await within(own, attack, server, id)).toEqual({
      me: expect.stringContaining('"userName":"local"'),
      followed: expect.stringContaining('"hello"'),
    });
    await using site = await otherSite(name);
    const page = await browserTest.chromium.tab(own);
    await page.open(site.url);
    const cookies: boolean[] = [];
    page.on('Network.requestWillBeSentExtraInfo', ({ headers }) => {
      const { Host, Cookie } = Object(headers);
      if (Host === new URL(server).host) cookies.push(Cookie !== undefined);
    });
    expect(await within(page, attack, server, id)).toEqual({ me: 'refused', followed: 'refused' });
    await expect.poll(() => cookies[0]).toBe(sendsCookie);
    const written = await within(
      page,
      async (server) => {
        const body = '{"agentKey":"forged"}';
        const to = (mode: 'cors' | 'no-cors', headers: Record<string, string>) =>
          fetch(`${server}/v1/sessions`, { method: 'POST', mode, credentials: 'include', headers, body }).then(
            (answer) => answer.status,
            () => 'refused',
          );
        return [await to('no-cors', { 'content-type': 'text/plain' }), await to('cors', { 'x-cella-csrf': 'guessed' })];
      },
      server,
    );
    expect(written).toEqual(['refused', 'refused']);
    const sent = page.arrival(`${server}/v1/sessions`);
    await page.evaluate(`
      const form = document.body.appendChild(document.createElement('form'));
      Object.assign(form, { method: 'post', action: '${server}/v1/sessions', enctype: 'text/plain' });
      const field = form.appendChild(document.createElement('input'));
      Object.assign(field, { name: '{"agentKey":"forged","labels":{"a":"', value: '"}}' });
      form.submit();
    `);
    await sent;
    expect(await page.evaluate('document.body.innerText')).toMatch(/FORBIDDEN|UNAUTHENTICATED/);
    expect((await browserTest.cella.call('GET /v1/sessions')).text).not.toContain('forged');
  });

  // As by DNS rebinding: to the browser it is a page of the same origin. It has even got hold of a login.
  it('at another name that resolves to the server gets nothing', async () => {
    const page = await browserTest.loggedIn();
    const { cookies } = await page.send('Network.getCookies');
    const [{ value }] = cookies as [{ value: string }];
    const { port } = new URL(browserTest.url);
    const url = `http://rebound.example:${port}/health`;
    await page.send('Network.setCookie', { url, name: 'cella', value, sameSite: 'Strict' });
    const { id } = await browserTest.cella.session({ agentKey: 'rebound' });
    const use = async (id: string) => {
      const { status } = await fetch('/v1/me');
      const socket = new WebSocket(`/v1/sessions/${id}/ws?after=0`);
      const follows = await new Promise<boolean>((resolve) => {
        socket.onmessage = () => resolve(true);
        socket.onclose = () => resolve(false);
      });
      socket.close();
      return { status, follows };
    };
    expect(await within(page, use, id)).toEqual({ status: 200, follows: true });
    await page.open(url);
    expect(await page.evaluate('document.body.innerText')).toContain('does not accept the host name "rebound.example"');
    expect(await within(page, use, id)).toEqual({ status: 403, follows: false });
  });
});
