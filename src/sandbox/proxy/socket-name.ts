/** What the socket of a proxy is called in its folder, for those who need to know no more of it. */

export const SOCKET_NAME = 'proxy';
