/** A failure for a person at a browser: what happened, and what to do next. Programs get the same as JSON. */

import { accepts } from 'hono/accepts';
import { type CellaError, errorCodes } from '../../protocol/errors.ts';
import type { ExchangeContext } from './exchange.ts';
import { html, pageOf, prose } from './page.ts';

const titles: Partial<Record<CellaError['code'], string>> = {
  UNAUTHENTICATED: 'Not logged in',
  FORBIDDEN: 'Not allowed',
  NOT_FOUND: 'Not found',
  RATE_LIMITED: 'Too many requests',
  DAEMON_STOPPING: 'The server is ending',
  INTERNAL: 'Something went wrong',
};

const LOG_IN =
  '`cella users login` prints a link to log in with: it works once, and for 15 minutes. An admin makes one for you with `cella users login NAME`.';

/** Whether somebody looks at the answer: programs ask for JSON, or for anything. */
export function wantsPage(c: ExchangeContext): boolean {
  // A person sends one form: that of a login.
  if (c.env.upgrade || (!['GET', 'HEAD'].includes(c.req.method) && c.get('route') !== '/login')) return false;
  const supports = ['application/json', 'text/html'];
  return accepts(c, { header: 'Accept', supports, default: 'application/json' }) === 'text/html';
}

export function failurePage(error: CellaError, c: ExchangeContext): string {
  const { code, message, advice } = error;
  const title = titles[code] ?? 'This did not work';
  const lines = [
    `<h1>${html(title)}</h1>`,
    `<p>${prose(message)}</p>`,
    // That of the code is for programs, which have tokens.
    `<p>${prose(code === 'UNAUTHENTICATED' && advice === errorCodes[code].advice ? LOG_IN : advice)}</p>`,
    ...(code === 'UNAUTHENTICATED' ? [wayOn(c)] : []),
    `<p><small>${errorCodes[code].http} ${html(code)}, request <code>${html(c.get('requestId'))}</code></small></p>`,
  ];
  return pageOf(`${title} · Cella`, lines.join('\n'));
}

/** A link of this page carries the login, where there is one: browsers hold it back from those of other sites. */
function wayOn(c: ExchangeContext): string {
  return c.get('route') === '/login'
    ? '<p>Was it this browser that has used the link? Then it is logged in: <a href="/docs">go on</a>.</p>'
    : '<p>Has this browser logged in before, and did you follow a link to here? Then <a href="">open this address again</a>.</p>';
}
