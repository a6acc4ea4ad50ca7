/** Documents, messages, meetings and the work of an office. */
export const office = `
document paper file paperwork papers form memo dossier record pdf docx
sign signature certify e-sign electronically electronic autograph endorse notarize seal digital_signature
pdf acrobat adobe portable_document ebook brochure handout leaflet
form application official questionnaire field box blank fill complete
contract agreement lease treaty deal terms clause obligation legally binding party legal law lawyer
legal law lawyer attorney court gdpr regulation compliance rights notice statute policy liability
privacy gdpr data_protection policy notice cookie consent personal confidential statement
confidential secret nda non-disclosure private classified proprietary secrecy
invoice bill charge billing statement client consulting amount_due fee
receipt slip till voucher proof_of_purchase expense
resume cv curriculum_vitae applicant candidate career job_seeker employment_history qualification experience
job vacancy vacancies position opening hiring employer recruit recruiter programmer nurse career employment work occupation profession
employee staff worker colleague personnel coworker workforce team member
boss manager supervisor chief director executive lead head
salary wage pay payroll paycheck compensation net gross deductions employee receive earnings
meeting call conference standup sync gathering session appointment lunch discussion videoconference zoom
appointment schedule calendar event lunch dinner meeting date reservation invite invitation attend attendee
slot availability available free common time everybody gap opening
agenda today programme plan schedule itinerary day_plan appointments
minutes transcript notes protocol action_items decisions recap outcome follow-up
reminder remind forget forgotten alarm alert notify notification nudge wake
task todo chore to-do errand assignment open pending due checklist
priority urgent important importance rank first
project milestone gantt timeline roadmap schedule deadline plan phase deliverable
hours timesheet worked tracking billable overtime time_tracking clock_in
slides presentation deck powerpoint keynote pitch talk lecture outline speech
letter mail post envelope address salutation mail_merge mass_mailing
email mail message e-mail inbox outbox gmail outlook correspondence attached attachment recipient sender smtp imap
attachment attached enclosure file append
newsletter mailing_list promotional promotion marketing_mail advertisement subscription unsubscribe opt_out unwanted bulk spam
reply answer respond response write_back return
message text note dm notification chat sms whatsapp telegram slack messenger
channel slack team chat room group thread discord
sms text_message phone mobile cell texting number
call ring phone telephone dial voice speak twilio
post publish tweet share social facebook instagram twitter linkedin network status update feed
queue schedule later planned postpone delay
survey questionnaire poll respondents answers feedback opinion participants results
customer client buyer shopper consumer patron account
lead prospect opportunity potential pipeline funnel sales qualified
deal sale opportunity stage crm pipeline won lost close closing
churn leave lose cancel attrition departing retention loss unsubscribe about_to_leave
inventory stock warehouse supply supplies goods reorder replenish restock shortage running_low run_out sold_out
shipment parcel package delivery courier carrier tracking shipping order dhl ups fedex consignment
label sticker postage stamp shipping_label tag
competitor rival competition market other_shops benchmark
company firm business enterprise organisation corporation startup acme employer
product article item goods merchandise ware offering
report overview analysis summary results findings annual_report statement evaluation
spreadsheet excel sheet workbook cells table xls ods google_sheets export tabular
chart graph diagram plot visual visualisation figure
letterhead template boilerplate layout format design pattern
citation reference bibliography source apa mla bibtex doi works_cited footnote literature
publication paper article journal doi study research preprint arxiv
translate translation interpreter language version foreign multilingual localise german french spanish italian chinese
proofread spelling grammar typo orthography mistakes correct errors punctuation
tone style formal polite friendly professional casual brief rude courteous wording
headline title heading subject caption header name catchy
summary abstract gist tldr synopsis outline digest key_points main_points shorten condensed brief recap
draft compose write formulate prepare rough version
edit edits edited revision change highlight changed track_changes redline
note notes jot memo remark annotation comment
print printer paper hardcopy
archive store keep file_away preserve retain
`;
