/**
 * The pages of a login link. The first has a button: the code is used by whoever presses it, and not by programs that
 * follow links to show a preview of them. It goes without a script, as all pages do.
 *
 * The second is what a browser gets that has just logged in: a page that leads on to the documentation by itself.
 *
 * Browsers hold a same-site cookie back from a redirect that began at another site, such as a link in a chat or a mail;
 * they send it where a page of the server's own leads on.
 */

import { pageHeaders, pageOf } from './page.ts';

const SHOW = pageOf(
  'Log in · Cella',
  '<h1>Log in to Cella</h1>\n<p>This link works once.</p>\n<form method="post"><button type="submit">Log in</button></form>',
);

export const showLoginPage = {
  body: SHOW,
  headers: {
    ...pageHeaders,
    'content-security-policy': pageHeaders['content-security-policy'].replace(
      "form-action 'none'",
      "form-action 'self'",
    ),
    // Without it, browsers send `Origin: null` along with the form; the address with the code goes nowhere.
    'referrer-policy': 'origin',
  },
} as const;

const PAGE = pageOf('Logged in · Cella', '<h1>Logged in</h1>\n<p><a href="/docs">Go on</a> to the documentation.</p>');

export const loginPage = { body: PAGE, headers: { ...pageHeaders, refresh: '0; url=/docs' } } as const;
